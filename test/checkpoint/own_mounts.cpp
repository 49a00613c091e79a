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
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "own_space.h"

namespace {
using namespace own_space;

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
    be_root_of_ones_own(CLONE_NEWNS);
    CHECK(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
}

void folder(const std::string& path) {
    CHECK(mkdir(path.c_str(), 0755) == 0 || errno == EEXIST);
}

test::Check child(const std::function<void()>& set_up, const std::function<void()>& verify) {
    return by(new Child(set_up, verify));
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
            CHECK(link("file", "deep/another name") == 0);
            const timespec times[2] = {{1, 0}, {4711, 815}};
            CHECK(utimensat(AT_FDCWD, "file", times, 0) == 0);
            CHECK(chmod("deep", 0500) == 0 && chmod("file", 0400) == 0);
        },
        [] {
            CHECK(here().ends_with("/in_memory"));
            struct stat status = {};
            struct statvfs system = {};
            CHECK(content("file") == "what is in it" && stat("file", &status) == 0 &&
                  status.st_mode == (S_IFREG | 0400));
            CHECK(status.st_nlink == 2 && status.st_mtim.tv_sec == 4711 && status.st_mtim.tv_nsec == 815);
            struct stat other = {};
            CHECK(stat("deep/another name", &other) == 0 && other.st_ino == status.st_ino);
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

// As sandboxes hide a folder but for one of those in it: an empty one is on the way to the source then.
test::Check bound_back() {
    folder("hidden");
    folder("hidden/shown");
    put("hidden/shown/name", "of the source", O_WRONLY | O_CREAT | O_TRUNC);
    put("hidden/file", "of the hidden folder", O_WRONLY | O_CREAT | O_TRUNC);
    return child(
        [] {
            be_root_with_own_mounts();
            const int shown = open("hidden/shown", O_PATH), file = open("hidden/file", O_PATH);
            CHECK(mount("empty", "hidden", "tmpfs", 0, nullptr) == 0);
            folder("hidden/shown");
            put("hidden/file", "", O_WRONLY | O_CREAT);
            const auto bind = [](int source, const char* at) {
                const std::string path = "/proc/self/fd/" + std::to_string(source);
                CHECK(mount(path.c_str(), at, nullptr, MS_BIND, nullptr) == 0 && close(source) == 0);
            };
            bind(shown, "hidden/shown");
            bind(file, "hidden/file");
        },
        [] {
            CHECK(content("hidden/shown/name") == "of the source");
            CHECK(content("hidden/file") == "of the hidden folder");
            put("hidden/shown/name", "of the source");
        });
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

// Paths of the mount namespace lead elsewhere from there.
test::Check root_within() {
    folder("jail");
    const std::string before = here();
    return child(
        [=] {
            be_root_with_own_mounts();
            CHECK(mount("/", "jail", nullptr, MS_BIND | MS_REC, nullptr) == 0);
            CHECK(chroot("jail") == 0 && chdir(before.c_str()) == 0);
        },
        [=] {
            CHECK(here() == before && access("jail", F_OK) == 0 && access("jail/usr", F_OK) == -1);
            CHECK(link_of("/proc/self/root") == "/" && link_of("/proc/self/cwd") == before);
        });
}

// One file system that is mounted twice, in whole and in part.
test::Check mounted_twice() {
    folder("whole");
    folder("part");
    return child(
        [] {
            be_root_with_own_mounts();
            CHECK(mount("scratch", "whole", "tmpfs", 0, nullptr) == 0);
            folder("whole/sub");
            CHECK(mount("whole/sub", "part", nullptr, MS_BIND, nullptr) == 0);
        },
        [] {
            put("part/new", "seen by both", O_WRONLY | O_CREAT);
            CHECK(content("whole/sub/new") == "seen by both" && unlink("whole/sub/new") == 0);
            CHECK(content("part/new") == "(none)");
        });
}

// Shared memory by a name that only the namespace has, where everybody's has a file of the same name and
// number: numbers of inodes are counted in each file system in memory.
test::Check shared_memory_of_its_own() {
    const std::string name = "cairn-own-" + std::to_string(getpid()), path = "/dev/shm/" + name;
    put(path, "outside", O_WRONLY | O_CREAT);
    struct stat outside = {};
    CHECK(stat(path.c_str(), &outside) == 0);
    auto inside = child(
        [=] {
            be_root_with_own_mounts();
            CHECK(mount("scratch", "/dev/shm", "tmpfs", 0, nullptr) == 0);
            constexpr ino_t most = 20'000;  // else they differ, and the names alone are the same
            struct stat made = {};
            for (ino_t tries = 0; tries < most && made.st_ino != outside.st_ino; ++tries) {
                unlink(path.c_str());
                put(path, "of its own", O_WRONLY | O_CREAT);
                CHECK(stat(path.c_str(), &made) == 0);
                if (made.st_ino > outside.st_ino) break;
            }
            const int file = open(path.c_str(), O_RDWR);
            CHECK(file >= 0 && dup2(file, 100) == 100 && close(file) == 0);
            CHECK(mmap(reinterpret_cast<void*>(0x200000000), 4096, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED_NOREPLACE, 100, 0) != MAP_FAILED);
        },
        [=] {
            auto* const memory = reinterpret_cast<char*>(0x200000000);
            CHECK(std::string(memory, 10) == "of its own" && content(path) == "of its own");
            memory[0] = 'O';
            CHECK(content(path) == "Of its own" && lseek(100, 0, SEEK_SET) == 0);
            memory[0] = 'o';
        });
    return [=](bool last) {
        inside(last);
        CHECK(content(path) == "outside");
        if (last) CHECK(unlink(path.c_str()) == 0);
    };
}

// Where something is mounted, and how that propagates. `below`: in there only; what else is mounted is the
// machine's, where others mount and unmount meanwhile.
std::string mounted(const std::string& below) {
    std::istringstream lines(content("/proc/self/mountinfo"));
    std::vector<std::string> points;
    for (std::string line, word; std::getline(lines, line);) {
        std::istringstream words(line);
        for (int i = 0; i < 5; ++i) words >> word;
        if (!word.starts_with(below)) continue;
        std::string point = word;
        words >> word;  // its options
        while (words >> word && word != "-") point += "+" + word.substr(0, word.find(':'));
        points.push_back(point);
    }
    std::sort(points.begin(), points.end());
    std::string all;
    for (const auto& point : points) all += point + " ";
    return all;
}

// The three kinds that a mount of the namespace's own may have, and none of them outside.
test::Check propagation() {
    for (const char* name : {"private", "shared", "unbindable", "slave"}) folder(name);
    auto* const at_first = new std::string;
    return child(
        [at_first] {
            be_root_with_own_mounts();
            for (const char* name : {"private", "shared", "unbindable", "slave"})
                CHECK(mount("scratch", name, "tmpfs", 0, "size=64k") == 0);
            CHECK(mount(nullptr, "shared", nullptr, MS_SHARED, nullptr) == 0);
            CHECK(mount(nullptr, "unbindable", nullptr, MS_UNBINDABLE, nullptr) == 0);
            *at_first = mounted(std::filesystem::current_path());
            CHECK(at_first->find("/shared+shared ") != std::string::npos &&
                  at_first->find("/unbindable+unbindable ") != std::string::npos &&
                  at_first->find("/private ") != std::string::npos);
        },
        [at_first] { CHECK(mounted(std::filesystem::current_path()) == *at_first); });
}

// What is mounted over a folder covers what the machine has mounted below it, read-only here; in what covers
// it there is a folder of the same name.
test::Check covered_from_above() {
    auto* const at_first = new std::string;
    return child(
        [at_first] {
            be_root_with_own_mounts();
            // What it forbids is locked here (mount_namespaces(7)). ST_* of these are MS_*.
            struct statvfs system {};
            CHECK(statvfs("/dev/shm", &system) == 0);
            const auto kept = system.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC);
            CHECK(mount(nullptr, "/dev/shm", nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | kept, nullptr) == 0);
            CHECK(mount("own", "/dev", "tmpfs", 0, nullptr) == 0);
            folder("/dev/shm");
            put("/dev/shm/own", "not the machine's", O_WRONLY | O_CREAT);
            *at_first = mounted("/dev");
        },
        [at_first] {
            CHECK(content("/dev/shm/own") == "not the machine's" && mounted("/dev") == *at_first);
        });
}

// It shows the interfaces of the network of who has mounted it.
test::Check system_of_a_network() {
    const auto interfaces = [] {
        std::string all;
        for (const auto& each : std::filesystem::directory_iterator("/sys/class/net"))
            all += each.path().filename().string() + " ";
        return all;
    };
    return child(
        [=] {
            be_root_of_ones_own(CLONE_NEWNS | CLONE_NEWNET);
            CHECK(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
            CHECK(mount("own", "/sys", "sysfs", 0, nullptr) == 0 && interfaces() == "lo ");
        },
        [=] { CHECK(interfaces() == "lo "); });
}

// A part of what is mounted outside isn't in it any more.
test::Check something_taken_away() {
    if (user != 0) return [](bool) {};
    auto* const at_first = new std::string;
    return child(
        [at_first] {
            CHECK(unshare(CLONE_NEWNS) == 0 &&
                  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
            const std::string before = mounted("/dev");
            // In a user namespace the machine's mounts are locked to one another.
            const bool may = umount2("/dev/pts", MNT_DETACH) == 0 || umount2("/dev/shm", MNT_DETACH) == 0;
            CHECK(may || errno == EINVAL);
            *at_first = mounted("/dev");
            CHECK(!may || *at_first != before);
        },
        [at_first] { CHECK(mounted("/dev") == *at_first); });
}

}  // namespace

int main() {
    need_user_namespaces();
    test::serve({
        {"a copy", a_copy},
        {"memory mounted", memory_mounted},
        {"bound read-only", bound_read_only},
        {"bound back", bound_back},
        {"another root", another_root},
        {"a root folder within", root_within},
        {"mounted twice", mounted_twice},
        {"shared memory of its own", shared_memory_of_its_own},
        {"propagation", propagation},
        {"covered from above", covered_from_above},
        {"system of a network", system_of_a_network},
        {"something taken away", something_taken_away},
    });
}
