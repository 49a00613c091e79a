// Root's process changes its user and executes programs, as su and sshd do: those run as somebody who may not
// even look into the session's folder, and are members all the same, and so is whatever they execute, before
// and after a restart. A third one goes into an empty folder as its root before it becomes somebody else, and
// executes nothing, as haproxy, unbound and what sshd lets talk to strangers do: it has no /proc.
// ci: exact user
// rain: soak
// narrow: none
// root: who isn't root can't become another user
// heirs: none
#include <grp.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "support.h"

namespace {

constexpr uid_t other = 1234;
const char* program;

bool mapped(const char* what) {
    FILE* maps = std::fopen("/proc/self/maps", "re");
    CHECK(maps != nullptr);
    char line[4096];
    bool found = false;
    while (std::fgets(line, sizeof line, maps) != nullptr) found |= std::strstr(line, what) != nullptr;
    std::fclose(maps);
    return found;
}

void check_member() {
    CHECK(getuid() == other && geteuid() == other && getgid() == other && getgroups(0, nullptr) == 0);
    // A region of this user's own; nothing of root's stays mapped, and the file itself stays closed.
    CHECK(mapped("/libcairn.so") && mapped("/memfd:cairn-region") && !mapped("/region\n"));
    CHECK(open(std::getenv("CAIRN_REGION"), O_RDWR | O_CLOEXEC) == -1 && errno == EACCES);
}

pid_t spawn_member(const char* role, int in, int out) {
    char numbers[2][12];
    std::snprintf(numbers[0], sizeof numbers[0], "%d", in);
    std::snprintf(numbers[1], sizeof numbers[1], "%d", out);
    char* const arguments[] = {const_cast<char*>(program), const_cast<char*>(role), numbers[0], numbers[1],
                               nullptr};
    pid_t pid = -1;
    CHECK(posix_spawn(&pid, program, nullptr, nullptr, arguments, environ) == 0);
    return pid;
}

void ends_with_0(pid_t pid) {
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

// Who is asked through a pipe, and answers with its pid.
struct Asked {
    int to, from;
    pid_t pid;
    void ask() const {
        CHECK(write(to, "?", 1) == 1);
        pid_t answer = 0;
        CHECK(read(from, &answer, sizeof answer) == sizeof answer && answer == pid);
        CHECK(waitpid(pid, nullptr, WNOHANG) == 0);
    }
};

Asked start(bool change_user) {
    int questions[2], answers[2];
    CHECK(pipe(questions) == 0 && pipe(answers) == 0);
    Asked asked = {questions[1], answers[0], 0};
    if (!change_user) {
        asked.pid = spawn_member("leaf", questions[0], answers[1]);
    } else {
        asked.pid = fork();
        if (asked.pid == 0) {
            close(questions[1]);
            close(answers[0]);
            CHECK(setgroups(0, nullptr) == 0 && setresgid(other, other, other) == 0 &&
                  setresuid(other, other, other) == 0);
            char in[12], out[12];
            std::snprintf(in, sizeof in, "%d", questions[0]);
            std::snprintf(out, sizeof out, "%d", answers[1]);
            char path[4096], command[4200];
            std::snprintf(path, sizeof path, "%s", std::getenv("CAIRN_TEST_COMMAND"));
            std::snprintf(command, sizeof command, "CAIRN_TEST_COMMAND=%s", path);
            // A login has an environment of its own.
            char* const environment[] = {command, nullptr};
            execle(program, program, "user", in, out, nullptr, environment);
            _exit(9);
        }
    }
    close(questions[0]);
    close(answers[1]);
    return asked;
}

// What this user has made stays his: a pipe can be opened again by its owner alone (proc(5)).
void open_again(int fd) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int again = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(again >= 0 && close(again) == 0);
}

[[noreturn]] void answer(int in, int out, const Asked* below) {
    char question = 0;
    int own[2];
    CHECK(pipe2(own, O_CLOEXEC) == 0);
    while (read(in, &question, 1) == 1) {
        check_member();
        open_again(own[0]);
        if (below != nullptr) {
            below->ask();
            ends_with_0(spawn_member("look", 0, 0));
            const pid_t forked = fork();
            if (forked == 0) {
                execl(program, program, "look", "0", "0", nullptr);
                _exit(9);
            }
            ends_with_0(forked);
            char command[4200];
            std::snprintf(command, sizeof command, "%s look 0 0 && true", program);
            CHECK(std::system(command) == 0);
        }
        const pid_t self = getpid();
        CHECK(write(out, &self, sizeof self) == sizeof self);
    }
    _exit(0);
}

Asked start_enclosed() {
    int questions[2], answers[2];
    CHECK(pipe2(questions, O_CLOEXEC) == 0 && pipe2(answers, O_CLOEXEC) == 0);
    Asked asked = {questions[1], answers[0], fork()};
    CHECK(asked.pid >= 0);
    if (asked.pid > 0) {
        close(questions[0]);
        close(answers[1]);
        return asked;
    }
    close(questions[1]);
    close(answers[0]);
    CHECK(mkdir("enclosed", 0755) == 0 && chroot("enclosed") == 0 && chdir("/") == 0);
    CHECK(setgroups(0, nullptr) == 0 && setresgid(other, other, other) == 0 &&
          setresuid(other, other, other) == 0);
    char question = 0;
    while (read(questions[0], &question, 1) == 1) {
        CHECK(getuid() == other && access("/proc", F_OK) == -1 && errno == ENOENT);
        const pid_t self = getpid();
        CHECK(write(answers[1], &self, sizeof self) == sizeof self);
    }
    _exit(0);
}

bool has_other_users() {
    FILE* file = std::fopen("/proc/self/uid_map", "re");
    unsigned long inside = 0, outside = 0, length = 0;
    CHECK(file != nullptr && std::fscanf(file, "%lu %lu %lu", &inside, &outside, &length) == 3);
    std::fclose(file);
    return length > other;
}

}  // namespace

int main(int argc, char** argv) {
    static char path[4096];
    CHECK(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    program = path;
    if (argc == 4) {
        check_member();
        const int in = std::atoi(argv[2]), out = std::atoi(argv[3]);
        if (std::strcmp(argv[1], "look") == 0) return 0;
        if (std::strcmp(argv[1], "leaf") == 0) answer(in, out, nullptr);
        const Asked below = start(false);
        answer(in, out, &below);
    }
    if (geteuid() != 0 || !has_other_users()) test::skip("who isn't root can't become another user");
    const Asked enclosed = start_enclosed();
    const Asked user = start(true);
    user.ask();
    enclosed.ask();
    test::serve([&](bool last) {
        user.ask();
        enclosed.ask();
        if (!last) return;
        for (const auto& each : {user, enclosed}) {
            close(each.to);
            ends_with_0(each.pid);
        }
    });
}
