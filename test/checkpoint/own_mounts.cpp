// Mount namespaces that processes have made for themselves: copies of the machine's in which something is
// mounted (a file system in memory, a folder at another place, read-only) or nothing, and ones with another
// root folder, as sandboxes make them.
// ci: exact user
// narrow: none
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "support.h"

namespace {

const uid_t user = getuid();
const gid_t group = getgid();

std::string content(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    char text[65536];
    const ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0) close(fd);
    return got < 0 ? "(none)" : std::string(text, static_cast<std::size_t>(got));
}

void put(const std::string& path, const std::string& text, int flags = O_WRONLY) {
    const int fd = open(path.c_str(), flags | O_CLOEXEC, 0640);
    CHECK(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
          close(fd) == 0);
}

std::string here() {
    char path[4096];
    CHECK(getcwd(path, sizeof path) != nullptr);
    return path;
}

std::string link_of(const std::string& path) {
    char text[4096];
    const ssize_t got = readlink(path.c_str(), text, sizeof text);
    CHECK(got > 0);
    return {text, static_cast<std::size_t>(got)};
}

// As `unshare -rm` does it.
void be_root_with_own_mounts() {
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
    put("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
    CHECK(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
}

void folder(const std::string& path) {
    CHECK(mkdir(path.c_str(), 0755) == 0 || errno == EEXIST);
}

// A child that sets itself up, and looks at itself whenever it is asked.
test::Check child(const std::function<void()>& set_up, const std::function<void()>& verify) {
    int ask[2], answer[2];
    CHECK(pipe2(ask, O_CLOEXEC) == 0 && pipe2(answer, O_CLOEXEC) == 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    char byte = '.';
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ask[1]);
        close(answer[0]);
        set_up();
        for (;;) {
            CHECK(write(answer[1], &byte, 1) == 1);
            if (read(ask[0], &byte, 1) != 1) _exit(0);
            verify();
        }
    }
    close(ask[0]);
    close(answer[1]);
    CHECK(read(answer[0], &byte, 1) == 1);
    return [=](bool last) {
        char asked = '?';
        CHECK(write(ask[1], &asked, 1) == 1 && read(answer[0], &asked, 1) == 1);
        if (last) CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, nullptr, 0) == pid);
    };
}

test::Check a_copy() {
    const std::string before = here();
    return child(be_root_with_own_mounts, [=] {
        CHECK(here() == before && content("/etc/passwd") != "(none)");
        CHECK(link_of("/proc/self/exe").ends_with("/own_mounts"));
    });
}

test::Check memory_mounted() {
    folder("in_memory");
    return child(
        [] {
            be_root_with_own_mounts();
            CHECK(mount("scratch", "in_memory", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0711") == 0);
            CHECK(chdir("in_memory") == 0);
            put("file", "what is in it", O_WRONLY | O_CREAT);
            folder("deep");
            put("deep/empty", "", O_WRONLY | O_CREAT);
            CHECK(symlink("../file", "deep/link") == 0 && mkfifo("pipe", 0604) == 0);
            CHECK(chmod("deep", 0500) == 0 && chmod("file", 0400) == 0);
        },
        [] {
            CHECK(here().ends_with("/in_memory"));
            struct stat status = {};
            struct statvfs system = {};
            CHECK(content("file") == "what is in it" && stat("file", &status) == 0 &&
                  status.st_mode == (S_IFREG | 0400));
            CHECK(content("deep/empty").empty() && link_of("deep/link") == "../file");
            CHECK(stat("deep", &status) == 0 && status.st_mode == (S_IFDIR | 0500) && status.st_uid == 0);
            CHECK(stat("pipe", &status) == 0 && status.st_mode == (S_IFIFO | 0604));
            CHECK(stat(".", &status) == 0 && status.st_mode == (S_IFDIR | 0711));
            CHECK(statvfs(".", &system) == 0 &&
                  (system.f_flag & (ST_NOSUID | ST_NODEV)) == (ST_NOSUID | ST_NODEV));
            CHECK(system.f_blocks * system.f_frsize == 1 << 20);
        });
}

// Outside there is nothing of it.
test::Check bound_read_only() {
    folder("bound");
    folder("source");
    put("source/name", "of the source", O_WRONLY | O_CREAT | O_TRUNC);
    auto inside = child(
        [] {
            be_root_with_own_mounts();
            CHECK(mount("source", "bound", nullptr, MS_BIND, nullptr) == 0);
            CHECK(mount(nullptr, "bound", nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOEXEC, nullptr) ==
                  0);
        },
        [] {
            CHECK(content("bound/name") == "of the source");
            CHECK(open("bound/other", O_WRONLY | O_CREAT, 0600) == -1 && errno == EROFS);
            struct statvfs system = {};
            CHECK(statvfs("bound", &system) == 0 &&
                  (system.f_flag & (ST_RDONLY | ST_NOEXEC)) == (ST_RDONLY | ST_NOEXEC));
            put("source/name", "of the source");
        });
    return [inside](bool last) {
        inside(last);
        CHECK(content("bound/name") == "(none)" && content("source/name") == "of the source");
    };
}

// A root in memory, in which some of the machine's folders are mounted, two of them under other names; a file
// of one of these is open.
test::Check another_root() {
    folder("root");
    folder("work");
    const std::string before = here();
    return child(
        [=] {
            be_root_with_own_mounts();
            CHECK(mount("box", "root", "tmpfs", 0, "mode=0755") == 0);
            for (const char* name : {"root/usr", "root/old", "root/work", "root/proc", "root/tmp"})
                folder(name);
            CHECK(symlink("usr/lib", "root/lib") == 0 && symlink("usr/lib64", "root/lib64") == 0);
            CHECK(mount("/usr", "root/usr", nullptr, MS_BIND | MS_REC, nullptr) == 0);
            CHECK(mount("/proc", "root/proc", nullptr, MS_BIND | MS_REC, nullptr) == 0);
            CHECK(mount("work", "root/work", nullptr, MS_BIND, nullptr) == 0);
            CHECK(mount("scratch", "root/tmp", "tmpfs", 0, "size=64k") == 0);
            CHECK(chdir("root") == 0 && syscall(SYS_pivot_root, ".", "old") == 0 && chdir("/") == 0);
            CHECK(umount2("/old", MNT_DETACH) == 0 && rmdir("/old") == 0 && chdir("/work") == 0);
            put("/tmp/note", "kept", O_WRONLY | O_CREAT);
            const int note = open("/tmp/note", O_RDWR);
            CHECK(note >= 0 && dup2(note, 101) == 101 && close(note) == 0 && lseek(101, 2, SEEK_SET) == 2);
            CHECK(mmap(nullptr, 4, PROT_READ, MAP_SHARED, 101, 0) != MAP_FAILED);
            const int opened = open("/work/open", O_RDWR | O_CREAT | O_TRUNC, 0600);
            CHECK(opened >= 0 && dup2(opened, 100) == 100 && close(opened) == 0);
        },
        [=] {
            CHECK(here() == "/work" && link_of("/proc/self/root") == "/" &&
                  link_of("/proc/self/cwd") == "/work");
            CHECK(access("/etc", F_OK) == -1 && access(before.c_str(), F_OK) == -1 &&
                  link_of("/lib") == "usr/lib");
            CHECK(access("/usr/bin/env", X_OK) == 0 && content("/tmp/note") == "kept");
            struct stat by_name = {}, by_number = {};
            CHECK(stat("open", &by_name) == 0 && fstat(100, &by_number) == 0 &&
                  by_name.st_ino == by_number.st_ino);
            CHECK(link_of("/proc/self/fd/100") == "/work/open" &&
                  link_of("/proc/self/fd/101") == "/tmp/note");
            CHECK(stat("/tmp/note", &by_name) == 0 && fstat(101, &by_number) == 0 &&
                  by_name.st_ino == by_number.st_ino);
            CHECK(lseek(101, 0, SEEK_CUR) == 2 &&
                  content("/proc/self/maps").find(" /tmp/note\n") != std::string::npos);
        });
}

// Where something is mounted, in the kernel's order.
std::string mounted() {
    std::istringstream lines(content("/proc/self/mountinfo"));
    std::vector<std::string> points;
    for (std::string line, word; std::getline(lines, line);) {
        std::istringstream words(line);
        for (int i = 0; i < 5; ++i) words >> word;
        points.push_back(word);
    }
    std::sort(points.begin(), points.end());
    std::string all;
    for (const auto& point : points) all += point + " ";
    return all;
}

// A part of what is mounted outside isn't in it any more.
test::Check something_taken_away() {
    if (user != 0) return [](bool) {};
    auto* const at_first = new std::string;
    return child(
        [at_first] {
            CHECK(unshare(CLONE_NEWNS) == 0 &&
                  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
            const std::string before = mounted();
            // In a user namespace the machine's mounts are locked to one another.
            const bool may = umount2("/dev/pts", MNT_DETACH) == 0 || umount2("/dev/shm", MNT_DETACH) == 0;
            CHECK(may || errno == EINVAL);
            *at_first = mounted();
            CHECK(!may || *at_first != before);
        },
        [at_first] { CHECK(mounted() == *at_first); });
}

}  // namespace

int main() {
    const pid_t probe = fork();
    if (probe == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
    int status = 0;
    CHECK(waitpid(probe, &status, 0) == probe);
    if (status != 0) test::skip("a user namespace can't be had");
    test::serve({
        {"a copy", a_copy},
        {"memory mounted", memory_mounted},
        {"bound read-only", bound_read_only},
        {"another root", another_root},
        {"something taken away", something_taken_away},
    });
}
