// system(3), popen(3) and pclose(3) in the middle of which the checkpoint comes: the command's exit status,
// what it reads and writes. SIGINT and SIGQUIT are ignored as long as a system(3) is under way, and a stream
// that fclose(3) closes is waited for. And posix_spawn(3) of a child that joins an old process group.
// ci: exact user virtual
// heirs: none
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

namespace {

// Who reads of it waits until there is a line.
struct Gate {
    int ends[2];
    // A shell knows descriptors of one digit: the end that none of them names goes out of the way.
    explicit Gate(int unnamed) {
        CHECK(pipe(ends) == 0);
        const int low = ends[unnamed];
        ends[unnamed] = fcntl(low, F_DUPFD, 20);
        CHECK(ends[unnamed] >= 20 && close(low) == 0);
    }
    void await() const {
        char byte = 0;
        CHECK(read(ends[0], &byte, 1) == 1);
    }
    void open(const char* line) const {
        CHECK(write(ends[1], line, std::strlen(line)) == static_cast<ssize_t>(std::strlen(line)));
    }
    [[nodiscard]] int reading() const { return ends[0]; }
};

struct Command {
    Gate gate{1};
    char text[200] = "";
    std::atomic<int> status{-1};
    std::atomic<bool> ended{false};
    pthread_t thread{};

    void begin(const Gate& begun, const char* behind) {
        ended = false;
        std::snprintf(text, sizeof text, "echo >&%d; read line <&%d; %s", begun.ends[1], gate.reading(),
                      behind);
    }
};

void* call_system(void* argument) {
    auto* command = static_cast<Command*>(argument);
    command->status = std::system(command->text);
    command->ended = true;
    return nullptr;
}

bool is_ignored(int signal) {
    struct sigaction now {};
    CHECK(sigaction(signal, nullptr, &now) == 0);
    return now.sa_handler == SIG_IGN;
}

// A program in the process group of who is as old as we are.
void check_joins(pid_t group) {
    posix_spawnattr_t attributes;
    CHECK(posix_spawnattr_init(&attributes) == 0 && posix_spawnattr_setpgroup(&attributes, group) == 0);
    CHECK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP) == 0);
    char name[] = "sleep", time[] = "1000";
    char* const arguments[] = {name, time, nullptr};
    pid_t child = 0;
    int status = 0;
    CHECK(posix_spawnp(&child, name, nullptr, &attributes, arguments, environ) == 0);
    CHECK(posix_spawnattr_getpgroup(&attributes, &status) == 0 && status == group);
    CHECK(getpgid(child) == group && kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    posix_spawnattr_destroy(&attributes);
}

int exit_status(int status) {
    CHECK(status >= 0 && WIFEXITED(status));
    return WEXITSTATUS(status);
}

}  // namespace

int main() {
    static Gate begun(0);  // each command writes into it first
    static Command first, second, read_from, closed_by_fclose;
    FILE *reading = nullptr, *writing = nullptr, *by_fclose = nullptr;
    const auto begin = [&] {
        first.begin(begun, "exit $line");
        second.begin(begun, "kill -9 $$");
        for (Command* each : {&first, &second})
            CHECK(pthread_create(&each->thread, nullptr, call_system, each) == 0);
        read_from.begin(begun, "echo got $line; exit 3");
        reading = popen(read_from.text, "r");
        // It ends at the end of its input: the streams before it must not be kept open by those behind.
        writing = popen("cat > /dev/null; exit 4", "we");
        closed_by_fclose.begin(begun, "exit 5");
        by_fclose = popen(closed_by_fclose.text, "re");
        CHECK(reading != nullptr && writing != nullptr && by_fclose != nullptr);
        CHECK((fcntl(fileno(reading), F_GETFD) & FD_CLOEXEC) == 0 &&
              (fcntl(fileno(writing), F_GETFD) & FD_CLOEXEC) != 0);
        for (int commands = 0; commands < 4; ++commands) begun.await();
    };
    const pid_t leader = fork();
    if (leader == 0)
        for (;;) pause();
    CHECK(leader > 0 && setpgid(leader, leader) == 0);
    begin();
    test::serve([&](bool last) {
        check_joins(leader);
        CHECK(!first.ended && !second.ended && is_ignored(SIGINT) && is_ignored(SIGQUIT));
        first.gate.open("7\n");
        CHECK(pthread_join(first.thread, nullptr) == 0 && exit_status(first.status) == 7);
        CHECK(is_ignored(SIGINT));
        second.gate.open("\n");
        CHECK(pthread_join(second.thread, nullptr) == 0 && WIFSIGNALED(second.status) &&
              WTERMSIG(second.status) == SIGKILL);
        CHECK(!is_ignored(SIGINT) && !is_ignored(SIGQUIT));
        read_from.gate.open("bread\n");
        char line[64] = "";
        CHECK(std::fgets(line, sizeof line, reading) != nullptr && std::strcmp(line, "got bread\n") == 0);
        CHECK(exit_status(pclose(reading)) == 3);
        CHECK(std::fputs("some\n", writing) >= 0 && exit_status(pclose(writing)) == 4);
        closed_by_fclose.gate.open("\n");
        CHECK(exit_status(fclose(by_fclose)) == 5);
        CHECK(waitpid(-1, nullptr, WNOHANG) == 0);  // but for the leader no child is left that has ended
        CHECK(popen("true", "x") == nullptr && errno == EINVAL);
        CHECK(popen("true", "rw") == nullptr && errno == EINVAL);
        CHECK(std::system(nullptr) != 0 && exit_status(std::system("no-such-command 2> /dev/null")) == 127);
        if (!last) return begin();
        CHECK(kill(leader, SIGKILL) == 0 && waitpid(leader, nullptr, 0) == leader);
        CHECK(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD);
    });
}
