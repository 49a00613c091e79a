// What can't be saved, one thing at a time: refused.cpp KIND. The program must go on as if nothing had been.
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include "support.h"

namespace {
std::string_view kind;
std::atomic<bool> ready{false};
int segment = -1;

// A filter that answers so to one call and allows the others. Its listener, if it has one, stays open.
void seccomp(unsigned call, unsigned answer, unsigned flags = 0) {
    sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                          {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
                          {BPF_RET | BPF_K, 0, 0, answer},
                          {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program = {4, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) >= 0);
}

// Sleeps by a call that a stop leaves to restart_syscall(2), which is death here.
void* sleeps_without_restart(void*) {
    seccomp(SYS_restart_syscall, SECCOMP_RET_KILL_PROCESS);
    ready = true;
    const timespec long_time = {1000, 0};
    for (;;) syscall(SYS_nanosleep, &long_time, nullptr);
}

void* thread_of_its_own_kind(void*) {
    if (kind == "thread-files") CHECK(unshare(CLONE_FILES) == 0);
    if (kind == "thread-directory") CHECK(unshare(CLONE_FS) == 0);
    if (kind == "thread-user") CHECK(syscall(SYS_setresuid, 1234, 1234, 1234) == 0);
    if (kind == "thread-seccomp") seccomp(SYS_setsid, SECCOMP_RET_KILL_PROCESS);
    if (kind == "thread-network" && unshare(CLONE_NEWNET) != 0) test::skip("unshare is not allowed");
    ready = true;
    for (;;) pause();
}

int shares_memory(void*) {
    ready = true;
    for (;;) syscall(SYS_pause);
}
}  // namespace

// Asleep in a call that nobody makes again when a signal or a stop has ended it: it must not notice.
pid_t start_sleeper() {
    const pid_t parent = getpid(), sleeper = fork();
    CHECK(sleeper >= 0);
    if (sleeper > 0) return sleeper;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    if (getppid() != parent) _exit(0);
    epoll_event event{};
    CHECK(epoll_wait(epoll_create1(EPOLL_CLOEXEC), &event, 1, -1) == 1);
    _exit(1);
}

int main(int argc, char** argv) {
    CHECK(argc == 2);
    kind = argv[1];
    const pid_t sleeper = start_sleeper();
    pid_t child = 0;
    if (kind.starts_with("thread-")) {
        pthread_t made;
        CHECK(pthread_create(&made, nullptr, thread_of_its_own_kind, nullptr) == 0);
    } else if (kind == "seccomp") {
        seccomp(SYS_vhangup, SECCOMP_RET_ERRNO);
        ready = true;
    } else if (kind == "seccomp, restart") {
        pthread_t made;
        CHECK(pthread_create(&made, nullptr, sleeps_without_restart, nullptr) == 0);
    } else if (kind == "seccomp listener") {
        seccomp(SYS_vhangup, SECCOMP_RET_USER_NOTIF);
        ready = true;
    } else if (kind == "seccomp, privileges gone") {
        sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
        const sock_fprog program = {1, code};
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) test::skip("root may do this");
        const __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct capabilities[2] = {};
        CHECK(syscall(SYS_capset, &header, capabilities) == 0);
        ready = true;
    } else if (kind == "seccomp strict") {
        int ends[2];
        CHECK(pipe(ends) == 0);
        child = fork();
        if (child == 0) {
            CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
            char byte = 0;
            for (;;) syscall(SYS_read, ends[0], &byte, 1);
        }
        test::nap(100);
        ready = true;
    } else if (kind == "network" || kind == "hostname" || kind == "mounts" || kind == "ipc" ||
               kind == "users") {
        if (unshare(kind == "network"    ? CLONE_NEWNET
                    : kind == "hostname" ? CLONE_NEWUTS
                    : kind == "mounts"   ? CLONE_NEWNS
                    : kind == "ipc"      ? CLONE_NEWIPC
                                         : CLONE_NEWUSER) != 0)
            test::skip("unshare is not allowed");
        ready = true;
    } else if (kind == "memory") {
        static char stack[65536];
        child = clone(shares_memory, stack + sizeof stack, CLONE_VM | SIGCHLD, nullptr);
        CHECK(child > 0);
    } else if (kind == "vfork") {
        // a grandchild that doesn't exec: its parent, our child, sleeps in the kernel
        child = fork();
        if (child == 0) {
            if (vfork() == 0)  // NOLINT(bugprone-unsafe-functions): it is what is tested
                for (;;) syscall(SYS_pause);
            _exit(0);
        }
        test::nap(100);
        ready = true;
    } else if (kind.starts_with("io-uring")) {
        io_uring_params parameters = {};
        if (kind == "io-uring-thread") parameters.flags = IORING_SETUP_SQPOLL;
        if (syscall(SYS_io_uring_setup, 4, &parameters) < 0) test::skip("io_uring is not allowed");
        ready = true;
    } else if (kind == "thread pidfd") {
        static std::atomic<pid_t> tid{0};
        pthread_t made;
        const auto sleep = [](void*) -> void* {
            tid = gettid();
            for (;;) pause();
        };
        CHECK(pthread_create(&made, nullptr, sleep, nullptr) == 0);
        while (tid == 0) test::nap(1);
        constexpr unsigned of_a_thread = O_EXCL;  // PIDFD_THREAD, since Linux 6.9
        if (syscall(SYS_pidfd_open, tid.load(), of_a_thread) < 0) test::skip("no pidfds of threads");
        ready = true;
    } else if (kind == "queue") {
        const std::string name = "/cairn-test-" + std::to_string(getpid());
        const mqd_t queue = mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600, nullptr);
        if (queue < 0) test::skip("no POSIX message queues");
        sigevent event{};
        event.sigev_notify = SIGEV_THREAD;
        event.sigev_notify_function = [](sigval) {};
        CHECK(mq_unlink(name.c_str()) == 0 && mq_notify(queue, &event) == 0);
        ready = true;
    } else if (kind == "huge pages") {
        // Nothing is touched: no page of the pool is needed.
        void* memory = mmap(nullptr, 1 << 21, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) test::skip("no huge pages");
        ready = true;
    } else if (kind == "huge memfd") {
        const int file = memfd_create("huge", MFD_HUGETLB);
        if (file < 0) test::skip("no huge pages");
        // A private view of one: the program's own pages of it.
        void* memory = mmap(nullptr, 1 << 21, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
        if (memory == MAP_FAILED) test::skip("no huge pages");
        ready = true;
    } else if (kind == "huge segment") {
        const int id = shmget(IPC_PRIVATE, 1 << 21, IPC_CREAT | SHM_HUGETLB | SHM_NORESERVE | 0600);
        if (id < 0) test::skip("no huge pages in System V segments for this user");
        segment = id;
        ready = true;
    } else if (kind == "packet ring") {
        const int fd = socket(AF_PACKET, SOCK_DGRAM, 0);
        if (fd < 0) test::skip("packet sockets are not allowed");
        const tpacket_req ring = {4096, 2, 2048, 4};
        CHECK(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring) == 0);
        ready = true;
    } else if (kind == "socket of another family") {
        if (socket(AF_ALG, SOCK_SEQPACKET, 0) < 0 && socket(AF_VSOCK, SOCK_STREAM, 0) < 0)
            test::skip("neither AF_ALG nor AF_VSOCK is there");
        ready = true;
    } else if (kind == "userfaultfd") {
        constexpr int user_mode_only = 1;
        if (syscall(SYS_userfaultfd, user_mode_only) < 0) test::skip("userfaultfd is not allowed");
        ready = true;
    } else if (kind == "traced") {
        child = fork();
        if (child == 0)
            for (;;) pause();
        if (ptrace(PTRACE_SEIZE, child, nullptr, nullptr) != 0) test::skip("ptrace is not allowed");
        ready = true;
    } else {
        test::failed(__FILE__, __LINE__, "unknown kind");
    }
    while (!ready) test::nap(1);
    test::serve([&](bool last) {
        if (child > 0) CHECK(waitpid(child, nullptr, WNOHANG) == 0);
        CHECK(waitpid(sleeper, nullptr, WNOHANG) == 0);
        if (last) kill(sleeper, SIGKILL);
        if (last && child > 0) kill(child, SIGKILL);
        if (last && segment >= 0) CHECK(shmctl(segment, IPC_RMID, nullptr) == 0);
    });
}
