// The exec family: every member keeps the program in its session, fails as libc's does, refuses who can't be
// a member.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "hijack/raw.h"
#include "test/hijack/subject.h"

namespace subject {
namespace {

std::string self, folder, foreign;

void expect_status(int wanted, auto exec) {
    const pid_t pid = fork();
    if (pid == 0) {
        exec();
        _exit(errno == 0 ? 250 : errno);
    }
    int status = -1;
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status));
    if (WEXITSTATUS(status) != wanted)
        std::fprintf(stderr, "status %d, wanted %d\n", WEXITSTATUS(status), wanted);
    EXPECT(WEXITSTATUS(status) == wanted);
}

void every_member() {
    char name[] = "subject", command[] = "member", entry[] = "HOME=/";
    char* const arguments[] = {name, command, nullptr};
    char* const few[] = {entry, nullptr};
    const char* path = self.c_str();
    const std::string home = self.substr(0, self.rfind('/'));
    setenv("PATH", ("/nonexistent::" + home).c_str(), 1);
    EXPECT(chdir("/") == 0);
    expect_status(0, [&] { execve(path, arguments, few); });
    expect_status(0, [&] { execve(path, arguments, nullptr); });
    expect_status(0, [&] { execv(path, arguments); });
    expect_status(0, [&] { execvp("subject", arguments); });
    expect_status(0, [&] { execvpe("subject", arguments, few); });
    expect_status(0, [&] { execl(path, name, command, nullptr); });
    expect_status(0, [&] { execlp("subject", name, command, nullptr); });
    expect_status(0, [&] { execle(path, name, command, nullptr, few); });
    expect_status(0, [&] { execveat(AT_FDCWD, path, arguments, few, 0); });
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    EXPECT(fd >= 0);
    expect_status(0, [&] { fexecve(fd, arguments, few); });
    expect_status(0, [&] { execveat(fd, "", arguments, few, AT_EMPTY_PATH); });
    close(fd);
    const int handle = open(path, O_PATH | O_CLOEXEC);
    expect_status(0, [&] { fexecve(handle, arguments, few); });
    close(handle);
    pid_t pid = -1;
    int status = -1;
    EXPECT(posix_spawnp(&pid, "subject", nullptr, nullptr, arguments, few) == 0);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(posix_spawnp(&pid, "nonexistent", nullptr, nullptr, arguments, few) == ENOENT);
}

void environment_kept() {
    char name[] = "subject", command[] = "variable", preload[] = "LD_PRELOAD";
    char theirs[] = "LD_PRELOAD=libm.so.6", other[] = "A=b", a[] = "A", b[] = "b";
    char both[4200];
    std::snprintf(both, sizeof both, "%s:libm.so.6", getenv(cairn::env_library));
    char* const preloaded[] = {theirs, other, nullptr};
    char* const asks_preload[] = {name, command, preload, both, nullptr};
    char* const asks_other[] = {name, command, a, b, nullptr};
    expect_status(0, [&] { execve(self.c_str(), asks_preload, preloaded); });
    expect_status(0, [&] { execve(self.c_str(), asks_other, preloaded); });
}

void write_file(const std::string& path, const char* text, mode_t mode) {
    FILE* file = fopen(path.c_str(), "w");
    EXPECT(file != nullptr);
    fputs(text, file);
    fclose(file);
    EXPECT(chmod(path.c_str(), mode) == 0);
}

cairn::SlotState own_state() {
    return region()->slots[cairn::find_slot(*region(), cairn::hijack::raw::pid())].state.load();
}

void failures() {
    char name[] = "x";
    char* const arguments[] = {name, nullptr};
    mkdir((folder + "/a").c_str(), 0755);
    mkdir((folder + "/b").c_str(), 0755);
    write_file(folder + "/a/tool", "exit 3\n", 0644);  // may not be executed: the search goes on
    write_file(folder + "/b/tool", "exit 4\n", 0755);  // has no #!: for the shell
    write_file(folder + "/a/denied", "", 0644);
    setenv("PATH", (folder + "/a:" + folder + "/b:/bin:/usr/bin").c_str(), 1);
    expect_status(4, [&] { execvp("tool", arguments); });
    expect_status(4, [&] { execlp("tool", "tool", nullptr); });
    expect_status(ENOEXEC, [&] { execv((folder + "/b/tool").c_str(), arguments); });
    const auto fails = [&](int error, const char* file) {
        errno = 0;
        EXPECT(execvp(file, arguments) == -1);
        EXPECT(errno == error);
        EXPECT(own_state() == cairn::SlotState::running);
    };
    fails(EACCES, "denied");
    fails(ENOENT, "nonexistent");
    fails(ENOENT, "");
    fails(EACCES, folder.c_str());
    fails(ENOTDIR, (folder + "/a/tool/x").c_str());
    fails(ENAMETOOLONG, std::string(300, 'x').c_str());
    unsetenv("PATH");
    fails(ENOENT, "nonexistent");
    expect_status(0, [&] { execlp("true", "true", nullptr); });
    setenv("PATH", "/bin:/usr/bin", 1);
}

void strangers() {
    char name[] = "static";
    char* const arguments[] = {name, nullptr};
    const char* path = foreign.c_str();
    pid_t pid = -1;
    // A member, which finds all that keeps what it executes in the session, and exits with 1 for that.
    int status = -1;
    expect_status(1, [&] { execv(path, arguments); });
    EXPECT(posix_spawn(&pid, path, nullptr, nullptr, arguments, environ) == 0);
    EXPECT(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 1);
    // Of a program for another machine nothing can be saved: refused, also where a script leads to it.
    const std::string narrow = folder + "/narrow";
    write_file(narrow, std::string("\177ELF\1\1\1 and no more of it, but enough to be looked at").c_str(),
               0755);
    EXPECT(execv(narrow.c_str(), arguments) == -1 && errno == EACCES);
    EXPECT(own_state() == cairn::SlotState::running);
    EXPECT(posix_spawn(&pid, narrow.c_str(), nullptr, nullptr, arguments, environ) == EACCES);
    const pid_t child = vfork();
    if (child == 0) {
        execv(narrow.c_str(), arguments);
        _exit(errno == EACCES ? 0 : 1);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    write_file(folder + "/script", ("#!" + narrow + "\n").c_str(), 0755);
    EXPECT(execl((folder + "/script").c_str(), "script", nullptr) == -1 && errno == EACCES);

    setenv("CAIRN_FOREIGN", "allow", 1);
    expect_status(0,
                  [&] { execv(path, arguments); });  // exits 0 if it finds nothing of ours in its environment
    EXPECT(posix_spawn(&pid, path, nullptr, nullptr, arguments, environ) == 0);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    unsetenv("CAIRN_FOREIGN");
}

}  // namespace

// argv: a folder to write in, a static program
int execs(int argc, char** argv) {
    EXPECT(argc == 2);
    folder = argv[0];
    foreign = argv[1];
    char path[4096] = {};
    EXPECT(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    self = path;
    EXPECT(is_member());
    every_member();
    environment_kept();
    failures();
    strangers();
    return 0;
}

// Run without a region: everything must go as if the library weren't there.
int bare(int, char**) {
    EXPECT(system("exit 3") == 3 << 8);
    const pid_t pid = fork();
    if (pid == 0) execlp("true", "true", nullptr);
    int status = -1;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}

}  // namespace subject
