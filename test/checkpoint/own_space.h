// What tests of namespaces that processes make for themselves share.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "support.h"

namespace own_space {

inline const uid_t user = getuid();
inline const gid_t group = getgid();

// "(none)": it can't be read.
inline std::string content(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    char text[65536];
    const ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0) close(fd);
    return got < 0 ? "(none)" : std::string(text, static_cast<std::size_t>(got));
}

inline void put(const std::string& path, const std::string& text, int flags = O_WRONLY) {
    const int fd = open(path.c_str(), flags | O_CLOEXEC, 0640);
    CHECK(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
          close(fd) == 0);
}

// As `unshare -r` does it; `besides`: other CLONE_NEW*.
inline void be_root_of_ones_own(int besides = 0) {
    CHECK(unshare(CLONE_NEWUSER | besides) == 0);
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
    put("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
}

// A child that sets itself up, and looks at itself whenever it is asked.
class Child {
  public:
    Child(const std::function<void()>& set_up, const std::function<void()>& verify,
          const std::function<pid_t()>& birth = fork) {
        CHECK(pipe2(ask_, O_CLOEXEC) == 0 && pipe2(answer_, O_CLOEXEC) == 0);
        pid_ = birth();
        CHECK(pid_ >= 0);
        if (pid_ != 0) {
            close(ask_[0]);
            close(answer_[1]);
            wait();
            return;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ask_[1]);
        close(answer_[0]);
        set_up();
        char byte = '.';
        do {
            CHECK(write(answer_[1], &byte, 1) == 1);
            const bool asked = read(ask_[0], &byte, 1) == 1;
            if (!asked) _exit(0);
            verify();
        } while (true);
    }
    void ask() const {
        CHECK(write(ask_[1], "?", 1) == 1);
        wait();
    }
    [[nodiscard]] pid_t pid() const { return pid_; }

  private:
    void wait() const {
        char byte = 0;
        CHECK(read(answer_[0], &byte, 1) == 1);
    }
    int ask_[2] = {}, answer_[2] = {};
    pid_t pid_ = 0;
};

inline test::Check by(Child* child) {
    return [child](bool last) {
        child->ask();
        if (last)
            CHECK(kill(child->pid(), SIGKILL) == 0 && waitpid(child->pid(), nullptr, 0) == child->pid());
    };
}

// Ends the test where nobody may make a user namespace.
inline void need_user_namespaces() {
    const pid_t probe = fork();
    if (probe == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
    int status = 0;
    CHECK(waitpid(probe, &status, 0) == probe);
    if (status != 0) test::skip("a user namespace can't be had");
}

}  // namespace own_space
