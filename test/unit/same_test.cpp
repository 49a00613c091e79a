// Descriptors and processes are told apart as kcmp does it, where a filter forbids kcmp: with F_DUPFD_QUERY
// (since 6.10) and without.
#include "common/same.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <thread>
#include <utility>
#include <vector>

#include "common/fd.h"

namespace cairn {
namespace {

constexpr unsigned query = 1024 + 3;  // F_DUPFD_QUERY

// kcmp is forbidden from now on, as container runtimes do it; and the command of fcntl as older kernels have
// it.
bool forbid(bool query_too) {
    constexpr unsigned number = offsetof(seccomp_data, nr), command = offsetof(seccomp_data, args[1]);
    std::array<sock_filter, 8> code = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kcmp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, command),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, query, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    if (!query_too) code[3] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The number of the first of `checks` that fails, from 1 on; 0: none. In a process of its own.
int in_child(bool query_too, int (*checks)()) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(!forbid(query_too) || kcmp_is_allowed() ? 99 : checks());
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

bool same(int one, int other) {
    const auto answer = same_description(one, other);
    return answer && *answer;
}

int check_descriptors() {
    const Fd one(::open("/dev/null", O_RDONLY)), other(::open("/dev/null", O_RDONLY)), copy(::dup(one.get()));
    if (!same(one.get(), copy.get()) || same(one.get(), other.get())) return 1;
    const Fd event(::eventfd(0, 0)), second(::eventfd(0, 0)), event_copy(::dup(event.get()));  // one inode
    if (!same(event.get(), event_copy.get()) || same(event.get(), second.get())) return 2;
    if (::fcntl(event.get(), F_SETSIG, SIGUSR1) != 0 || ::fcntl(second.get(), F_SETSIG, SIGUSR1) != 0)
        return 3;
    if (!same(event.get(), event_copy.get()) || same(event.get(), second.get())) return 4;
    if (::fcntl(event.get(), F_GETSIG) != SIGUSR1) return 5;
    if (::fcntl(one.get(), F_GETSIG) != 0) return 6;
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || same(pair[0], pair[1])) return 7;
    const Fd path(::open("/", O_PATH)), elsewhere(::open("/proc", O_PATH));
    if (!same(path.get(), path.get()) || same(path.get(), elsewhere.get())) return 8;
    return 0;
}

int wait_at(void* word) {
    while (static_cast<volatile int*>(word)[0] == 0) ::usleep(1000);
    return 0;
}

int check_memory() {
    auto* const word = static_cast<int*>(
        ::mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    char* const stack_end = reinterpret_cast<char*>(word) + (1 << 16);
    const pid_t sharing = ::clone(&wait_at, stack_end, CLONE_VM | SIGCHLD, word);
    const pid_t copy = ::fork();
    if (copy == 0) ::_exit(wait_at(word));
    const bool right = share_memory(sharing, ::getpid()) && share_memory(::getpid(), sharing) &&
                       !share_memory(copy, ::getpid()) && !share_memory(copy, sharing);
    *word = 1;
    ::waitpid(sharing, nullptr, 0);
    ::waitpid(copy, nullptr, 0);
    return right ? 0 : 1;
}

// Asked from outside: who looks into its own table has the folder open there.
bool seen_from_outside(const std::function<bool()>& look) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(look() ? 0 : 1);
    int status = 0;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

int check_threads() {
    auto* const word = static_cast<int*>(
        ::mmap(nullptr, 1 << 17, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    char* const stack_end = reinterpret_cast<char*>(word) + (1 << 17);
    constexpr int thread = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
    const pid_t own = ::clone(&wait_at, stack_end, thread, word);
    const pid_t shared = ::clone(&wait_at, stack_end - (1 << 16), thread | CLONE_FILES | CLONE_FS, word);
    const pid_t self = ::getpid();
    if (own < 0 || shared < 0) return 1;
    const auto descriptors = [&](pid_t tid) {
        return seen_from_outside([=] { return share_descriptors(self, self, tid); });
    };
    const auto folders = [&](pid_t tid) {
        return seen_from_outside([=] { return share_folders(self, self, tid); });
    };
    if (!descriptors(shared) || !folders(shared)) return 2;
    const Fd more(::open("/dev/null", O_RDONLY));
    if (!descriptors(shared) || descriptors(own)) return 3;
    ::umask(0123);
    if (!folders(shared) || folders(own)) return 4;
    return 0;
}

TEST(Same, DescriptorsWithoutKcmp) {
    EXPECT_EQ(in_child(false, &check_descriptors), 0);
}

TEST(Same, DescriptorsWithoutKcmpOnOlderKernels) {
    EXPECT_EQ(in_child(true, &check_descriptors), 0);
}

TEST(Same, MemoryWithoutKcmp) {
    EXPECT_EQ(in_child(true, &check_memory), 0);
}

TEST(Same, ThreadsWithoutKcmp) {
    EXPECT_EQ(in_child(true, &check_threads), 0);
}

// Children that wait to be killed: as many as there are flags.
std::vector<pid_t> clones_with(std::initializer_list<unsigned long> flags) {
    std::vector<pid_t> children;
    for (const unsigned long flag : flags) {
        const auto child =
            static_cast<pid_t>(::syscall(SYS_clone, flag | SIGCHLD, nullptr, nullptr, nullptr, 0));
        if (child == 0)
            for (;;) ::pause();
        children.push_back(child);
    }
    return children;
}

void end_clones(const std::vector<pid_t>& children) {
    for (const pid_t child : children) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
}

// Whoever looks has a list itself, because it has had a thread.
bool undo_together(const std::vector<pid_t>& children) {
    std::jthread([] {}).join();
    return find_common(Common::semaphore_undo, children).value().has_value();
}

TEST(Same, WhatAForkLeavesIsNotCommon) {
    const auto children = clones_with({0, 0, 0, 0, 0});
    for (const auto what : {Common::memory, Common::descriptors, Common::folders})
        EXPECT_FALSE(find_common(what, children).value().has_value());
    EXPECT_FALSE(undo_together(children));
    end_clones(children);
}

TEST(Same, WhatACloneLeavesIsCommon) {
    if (!kcmp_is_allowed()) GTEST_SKIP() << "kcmp is not allowed";
    const auto children = clones_with({0, CLONE_FILES, 0, CLONE_FS, 0, CLONE_FS, CLONE_FILES, 0});
    using Pair = std::pair<pid_t, pid_t>;
    EXPECT_EQ(find_common(Common::descriptors, children).value(), Pair(children[1], children[6]));
    EXPECT_EQ(find_common(Common::folders, children).value(), Pair(children[3], children[5]));
    EXPECT_FALSE(find_common(Common::memory, children).value().has_value());
    EXPECT_FALSE(undo_together(children));
    end_clones(children);
}

// What the others stand in for.
TEST(Same, AsKcmpHasIt) {
    if (!kcmp_is_allowed()) GTEST_SKIP() << "kcmp is not allowed";
    EXPECT_EQ(check_descriptors(), 0);
    EXPECT_EQ(check_memory(), 0);
}

}  // namespace
}  // namespace cairn
