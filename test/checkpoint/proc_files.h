// Files of /proc/PID that are held open: what proc_files and proc_files_inner look at.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

#include "support.h"

namespace proc_files {

inline int marker = 42;

inline int open_at(const std::string& path, int flags = O_RDONLY) {
    const int fd = open(path.c_str(), flags);
    if (fd < 0) std::perror(path.c_str());
    CHECK(fd >= 0);
    return fd;
}
// From its begin; "" if it can't be read.
inline std::string text_of(int fd) {
    std::string text;
    char data[4096];
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    for (ssize_t got = 0; (got = read(fd, data, sizeof data)) > 0;)
        text.append(data, static_cast<std::size_t>(got));
    return text;
}
inline bool leads_to(int folder, const std::string& name) {
    struct stat status {};
    return fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}
inline int marker_in(int memory) {
    int value = 0;
    const auto at = reinterpret_cast<std::intptr_t>(&marker);
    return pread(memory, &value, sizeof value, at) == sizeof value ? value : 0;
}
inline pid_t sleeper() {
    const pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    CHECK(child > 0);
    return child;
}

inline test::Check own_files() {
    const int stat = open_at("/proc/self/stat"), maps = open_at("/proc/self/maps"),
              memory = open_at("/proc/self/mem", O_RDWR), smaps = open_at("/proc/self/smaps"),
              folder = open_at("/proc/self/fd", O_RDONLY | O_DIRECTORY),
              mounts = open_at("/proc/self/mountinfo"), score = open_at("/proc/self/oom_score_adj", O_RDWR),
              uptime = open_at("/proc/uptime");
    return [=](bool) {
        CHECK(text_of(stat).find("proc_files") != std::string::npos);
        CHECK(text_of(maps).find("[stack]") != std::string::npos);
        CHECK(text_of(smaps).find("[stack]") != std::string::npos);
        CHECK(marker_in(memory) == 42 && leads_to(folder, std::to_string(stat)));
        for (const int fd : {mounts, score, uptime}) CHECK(!text_of(fd).empty());
    };
}

inline test::Check files_of_another() {
    const pid_t child = sleeper();
    const std::string process = "/proc/" + std::to_string(child);
    const int stat = open_at(process + "/stat"), memory = open_at(process + "/mem"),
              maps = open_at(process + "/maps"), folder = open_at(process, O_RDONLY | O_DIRECTORY),
              place = open_at(process, O_PATH | O_DIRECTORY), environment = open_at(process + "/environ"),
              line = open_at(process + "/cmdline");
    return [=](bool last) {
        CHECK(text_of(stat).find("proc_files") != std::string::npos && marker_in(memory) == 42);
        CHECK(text_of(maps).find("[stack]") != std::string::npos);
        CHECK(leads_to(folder, "stat") && leads_to(place, "stat"));
        CHECK(!text_of(environment).empty() && !text_of(line).empty());
        if (last) kill(child, SIGKILL);
    };
}

inline std::atomic<pid_t> other_thread{0};

// Of one thread: of ours, and of a child's.
inline test::Check files_of_a_thread() {
    const auto begin_thread = [] {
        std::thread([] {
            prctl(PR_SET_NAME, "the other");
            other_thread = gettid();
            for (;;) pause();
        }).detach();
        while (other_thread == 0) test::nap(1);
    };
    int told[2];
    CHECK(pipe(told) == 0);
    const pid_t child = fork();
    if (child == 0) {
        begin_thread();
        const pid_t tid = other_thread;
        CHECK(write(told[1], &tid, sizeof tid) == sizeof tid);
        for (;;) pause();
    }
    begin_thread();
    pid_t its = 0;
    CHECK(read(told[0], &its, sizeof its) == sizeof its);
    const std::string ours = "/proc/self/task/" + std::to_string(other_thread),
                      another = "/proc/" + std::to_string(child) + "/task/" + std::to_string(its);
    const int comm = open_at(ours + "/comm", O_RDWR | O_CLOEXEC), maps = open_at(ours + "/maps"),
              memory = open_at(ours + "/mem"), folder = open_at(ours, O_RDONLY | O_DIRECTORY),
              again = dup(maps), stat = open_at(another + "/stat"), place = open_at(another, O_PATH);
    char byte = 0;
    CHECK(again >= 0 && read(stat, &byte, 1) == 1);
    return [=](bool last) {
        CHECK(text_of(comm) == "the other\n" && (fcntl(comm, F_GETFD) & FD_CLOEXEC) != 0);
        CHECK((fcntl(comm, F_GETFL) & O_ACCMODE) == O_RDWR);
        CHECK(text_of(maps).find("[stack]") != std::string::npos && marker_in(memory) == 42);
        CHECK(lseek(again, 0, SEEK_CUR) == lseek(maps, 0, SEEK_CUR) && lseek(again, 0, SEEK_CUR) > 0);
        CHECK(leads_to(folder, "stat") && leads_to(place, "stat") && lseek(stat, 0, SEEK_CUR) == 1);
        CHECK(text_of(stat).find("(the other)") != std::string::npos && lseek(stat, 1, SEEK_SET) == 1);
        if (last) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

inline test::Check files_of_the_dead() {
    const pid_t child = sleeper();
    const std::string process = "/proc/" + std::to_string(child);
    const int stat = open_at(process + "/stat"), memory = open_at(process + "/mem"),
              folder = open_at(process, O_RDONLY | O_DIRECTORY);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    return [=](bool) {
        char byte = 0;
        CHECK(read(stat, &byte, 1) == -1 && errno == ESRCH);
        CHECK(pread(memory, &byte, 1, reinterpret_cast<std::intptr_t>(&marker)) == 0);
        CHECK(!leads_to(folder, "stat") && fcntl(folder, F_GETFL) >= 0);
    };
}

}  // namespace proc_files
