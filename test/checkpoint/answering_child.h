// A child of a program of this folder, which answers each letter with one of its own.
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

namespace test {

class AnsweringChild {
  public:
    // `answer`: char(char), called in the child.
    template <class Answer>
    explicit AnsweringChild(Answer answer) {
        int orders[2], answers[2];
        CHECK(pipe(orders) == 0 && pipe(answers) == 0);
        to_ = orders[1];
        from_ = answers[0];
        pid_ = fork();
        if (pid_ != 0) return;
        for (char order = 0; read(orders[0], &order, 1) == 1;) {
            const char seen = answer(order);
            CHECK(write(answers[1], &seen, 1) == 1);
        }
        _exit(0);
    }
    [[nodiscard]] char ask(char order) const {
        char seen = 0;
        CHECK(write(to_, &order, 1) == 1 && read(from_, &seen, 1) == 1);
        return seen;
    }
    void end() const { CHECK(kill(pid_, SIGKILL) == 0 && waitpid(pid_, nullptr, 0) == pid_); }

  private:
    pid_t pid_ = -1;
    int to_ = -1, from_ = -1;
};

}  // namespace test
