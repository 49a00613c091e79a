// What can't be saved, one thing at a time: refused.cpp KIND. The program must go on as if nothing had been.
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <linux/vm_sockets.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <string>

#include "own_links.h"
#include "support.h"

namespace {
std::atomic<bool> ready{false};  // the thread or child has done what can't be saved

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

void start_thread(void* (*life)(void*)) {
    pthread_t made;
    CHECK(pthread_create(&made, nullptr, life, nullptr) == 0);
    while (!ready) test::nap(1);
}

// A thread that is not like the others.
template <void (*differ)()>
pid_t thread_that() {
    start_thread([](void*) -> void* {
        differ();
        ready = true;
        for (;;) pause();
    });
    return 0;
}

int shares_memory(void*) {
    ready = true;
    for (;;) syscall(SYS_pause);
}
pid_t seccomp_of_its_own() {
    seccomp(SYS_vhangup, SECCOMP_RET_ERRNO);
    return 0;
}

pid_t seccomp_restart() {
    start_thread(sleeps_without_restart);
    return 0;
}

pid_t seccomp_listener() {
    seccomp(SYS_vhangup, SECCOMP_RET_USER_NOTIF);
    return 0;
}

pid_t seccomp_strict() {
    int ends[2];
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
        char byte = 0;
        for (;;) syscall(SYS_read, ends[0], &byte, 1);
    }
    test::nap(100);
    return child;
}

template <int space>
pid_t namespace_of_its_own() {
    if (unshare(space) == 0) return 0;
    // An ordinary user is given one in a user namespace of his own, in which he has to be somebody to make
    // files.
    char user[64], group[64];
    snprintf(user, sizeof user, "%u %u 1", getuid(), getuid());
    snprintf(group, sizeof group, "%u %u 1", getgid(), getgid());
    if (unshare(CLONE_NEWUSER | space) != 0) test::skip("unshare is not allowed");
    for (const auto& [file, text] :
         {std::pair<const char*, std::string>{"setgroups", "deny"}, {"uid_map", user}, {"gid_map", group}}) {
        const int map = open((std::string("/proc/self/") + file).c_str(), O_WRONLY | O_CLOEXEC);
        CHECK(map >= 0 && write(map, text.data(), text.size()) > 0 && close(map) == 0);
    }
    return 0;
}

pid_t interface_of_own_network() {
    namespace_of_its_own<CLONE_NEWNET>();
    const int tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    ifreq wanted = {};
    wanted.ifr_flags = IFF_TUN;
    if (tun < 0 || ioctl(tun, TUNSETIFF, &wanted) != 0 || ioctl(tun, TUNSETPERSIST, 1) != 0)
        test::skip("no interface can be made");
    CHECK(close(tun) == 0);
    return 0;
}

// It leads to the machine's network.
pid_t veth_to_the_outside() {
    const pid_t outside = getppid();
    if (unshare(CLONE_NEWNET) != 0 || !own_links::kernel_has("veth")) test::skip("no interface can be made");
    own_links::add_pair("inside", "cairn-" + std::to_string(getpid()), outside);
    return 0;
}

// A child that is the first process in a pid namespace, where it has done something.
pid_t first_of_own_pids(void (*something)()) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    namespace_of_its_own<CLONE_NEWPID>();
    const pid_t child = fork();
    char byte = '.';
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        something();
        CHECK(write(ends[1], &byte, 1) == 1);
        for (;;) pause();
    }
    CHECK(child > 0 && read(ends[0], &byte, 1) == 1);
    return child;
}

void fork_sleeper() {
    const pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    CHECK(child > 0);
}

// Threads are born where their process is, so one that is there already stays out.
pid_t pids_of_children_beside_threads() {
    namespace_of_its_own<CLONE_NEWUTS>();  // in which an ordinary user has the right to more
    start_thread([](void*) -> void* {
        ready = true;
        for (;;) pause();
    });
    if (unshare(CLONE_NEWPID) != 0) test::skip("unshare is not allowed");
    return 0;
}

pid_t file_of_own_proc() {
    return first_of_own_pids([] {
        CHECK(unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
        if (mount("proc", "/proc", "proc", 0, nullptr) != 0) test::skip("proc can't be mounted");
        CHECK(open("/proc/self/stat", O_RDONLY) >= 0);
        CHECK(umount2("/proc", MNT_DETACH) == 0);
    });
}

// Whoever has made it, and somebody who comes in from outside.
pid_t pids_come_into() {
    int ends[2];
    CHECK(pipe(ends) == 0);
    char byte = '.';
    const pid_t maker = fork();
    if (maker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        first_of_own_pids([] {});
        CHECK(write(ends[1], &byte, 1) == 1);
        for (;;) pause();
    }
    CHECK(maker > 0 && read(ends[0], &byte, 1) == 1);
    const std::string folder = "/proc/" + std::to_string(maker) + "/ns/";
    const int users = open((folder + "user").c_str(), O_RDONLY),
              pids = open((folder + "pid_for_children").c_str(), O_RDONLY);
    CHECK(users >= 0 && pids >= 0);
    (void)setns(users, CLONE_NEWUSER);  // root's is ours
    CHECK(setns(pids, CLONE_NEWPID) == 0 && close(users) == 0 && close(pids) == 0);
    fork_sleeper();
    return maker;
}

// The maker is a static program (pids_maker.cpp), which goes by the numbers of the kernel's.
pid_t pids_of_a_static_program(const char* maker) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(dup2(ends[1], 1) == 1);
        execl(maker, maker, nullptr);
        _exit(1);
    }
    char byte = 0;
    CHECK(child > 0 && close(ends[1]) == 0);
    if (read(ends[0], &byte, 1) != 1) test::skip("unshare is not allowed");
    return child;
}

pid_t shared_memory() {
    static char stack[65536];
    const pid_t child = clone(shares_memory, stack + sizeof stack, CLONE_VM | SIGCHLD, nullptr);
    CHECK(child > 0);
    while (!ready) test::nap(1);
    return child;
}

// A child of a clone(2) that leaves it something in common with its parent, made after `prepare`.
template <unsigned long flag, void (*prepare)()>
pid_t shared_by_clone() {
    prepare();
    const auto child = static_cast<pid_t>(syscall(SYS_clone, flag | SIGCHLD, nullptr, nullptr, nullptr, 0));
    CHECK(child >= 0);
    if (child == 0) {
        syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
        for (;;) syscall(SYS_pause);
    }
    return child;
}
void nothing() {}
// The kernel keeps a list of what is to be undone as soon as there is something.
void have_to_undo() {
    const int semaphore = semget(IPC_PRIVATE, 1, 0600);
    sembuf more = {0, 1, SEM_UNDO};
    CHECK(semaphore >= 0 && semop(semaphore, &more, 1) == 0 && semctl(semaphore, 0, IPC_RMID) == 0);
}

// A child and its child by such a clone, which is made a child of ours (CLONE_PARENT).
pid_t table_shared_by_siblings() {
    int ends[2];
    char byte = 0;
    CHECK(pipe(ends) == 0);
    const pid_t parent = fork();
    if (parent == 0) {
        shared_by_clone<CLONE_FILES | CLONE_PARENT, nothing>();
        CHECK(write(ends[1], &byte, 1) == 1);
        for (;;) pause();
    }
    CHECK(read(ends[0], &byte, 1) == 1 && close(ends[0]) == 0 && close(ends[1]) == 0);
    return parent;
}

// proc(5), field 3 of stat; D: asleep in the kernel, and no signal wakes it.
char state_of(pid_t pid) {
    char path[32], text[256] = {};
    snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0 && close(file) == 0);
    const char* name_end = strrchr(text, ')');
    CHECK(name_end != nullptr);
    return name_end[2];
}

// A grandchild that doesn't exec: its parent, our child, sleeps in the kernel.
pid_t asleep_in_vfork() {
    const pid_t child = fork();
    if (child == 0) {
        if (vfork() == 0)  // NOLINT(bugprone-unsafe-functions): it is what is tested
            for (;;) syscall(SYS_pause);
        _exit(0);
    }
    while (state_of(child) != 'D') test::nap(10);
    return child;
}

pid_t linux_aio() {
    unsigned long context = 0;
    if (syscall(SYS_io_setup, 8, &context) != 0) test::skip("Linux AIO is not allowed");
    return 0;
}

template <unsigned flags>
pid_t io_uring() {
    io_uring_params parameters = {};
    parameters.flags = flags;
    const long ring = syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0) test::skip("io_uring is not allowed");
    return 0;
}

pid_t io_uring_under_way() {
    io_uring_params parameters = {};
    const int ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters));
    if (ring < 0) test::skip("io_uring is not allowed");
    const auto map = [ring](off_t offset) {
        void* at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, offset);
        CHECK(at != MAP_FAILED);
        return static_cast<unsigned char*>(at);
    };
    int ends[2];
    CHECK(pipe(ends) == 0);
    auto* request = reinterpret_cast<io_uring_sqe*>(map(IORING_OFF_SQES));
    request->opcode = IORING_OP_POLL_ADD;
    request->fd = ends[0];
    request->poll32_events = 1;  // POLLIN
    __atomic_store_n(reinterpret_cast<unsigned*>(map(IORING_OFF_SQ_RING) + parameters.sq_off.tail), 1,
                     __ATOMIC_RELEASE);
    CHECK(syscall(SYS_io_uring_enter, ring, 1, 0, 0, nullptr, 0) == 1);
    return 0;
}

pid_t io_uring_with_an_eventfd() {
    io_uring_params parameters = {};
    const long ring = syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0) test::skip("io_uring is not allowed");
    const int event = eventfd(0, 0);
    CHECK(event >= 0 && syscall(SYS_io_uring_register, ring, IORING_REGISTER_EVENTFD, &event, 1) == 0);
    return 0;
}

// The kernel keeps the socket, and nobody else has it any more.
pid_t queue_whose_socket_is_closed() {
    const std::string name = "/cairn-test-" + std::to_string(getpid());
    const mqd_t queue = mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600, nullptr);
    const int news = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (queue < 0) test::skip("no POSIX message queues");
    static char notice[32];
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_signo = news;
    event.sigev_value.sival_ptr = notice;
    CHECK(mq_unlink(name.c_str()) == 0 && syscall(SYS_mq_notify, queue, &event) == 0 && close(news) == 0);
    return 0;
}

pid_t packet_ring() {
    const int fd = socket(AF_PACKET, SOCK_DGRAM, 0);
    if (fd < 0) test::skip("packet sockets are not allowed");
    const tpacket_req ring = {4096, 2, 2048, 4};
    CHECK(setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &ring, sizeof ring) == 0);
    return 0;
}

pid_t kernel_tls() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0), caller = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof name;
    auto* address = reinterpret_cast<sockaddr*>(&name);
    CHECK(bind(listener, address, length) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, address, &length) == 0 && connect(caller, address, length) == 0);
    constexpr int tcp_ulp = 31;
    if (setsockopt(caller, IPPROTO_TCP, tcp_ulp, "tls", sizeof "tls") != 0) test::skip("no kernel TLS");
    return 0;
}

pid_t socket_of_another_family() {
    if (socket(AF_ALG, SOCK_SEQPACKET, 0) < 0 && socket(AF_XDP, SOCK_RAW, 0) < 0)
        test::skip("neither AF_ALG nor AF_XDP is to be had");
    return 0;
}

// To this machine itself, where that can be; else one that nobody ever answers.
pid_t connected_vsock() {
    const int listener = socket(AF_VSOCK, SOCK_STREAM, 0), caller = socket(AF_VSOCK, SOCK_STREAM, 0);
    if (listener < 0 || caller < 0) test::skip("no vsocks");
    sockaddr_vm name{};
    socklen_t length = sizeof name;
    name.svm_family = AF_VSOCK;
    name.svm_cid = VMADDR_CID_ANY;
    name.svm_port = VMADDR_PORT_ANY;
    auto* address = reinterpret_cast<sockaddr*>(&name);
    CHECK(bind(listener, address, length) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, address, &length) == 0);
    const timeval patience{100, 0};
    CHECK(setsockopt(caller, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience, sizeof patience) == 0);
    CHECK(fcntl(caller, F_SETFL, O_NONBLOCK) == 0);
    name.svm_cid = VMADDR_CID_LOCAL;
    if (connect(caller, address, length) != 0 && errno != EINPROGRESS) test::skip("no transport for vsocks");
    return 0;
}

// To itself.
pid_t connected_mptcp() {
    const int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP),
              caller = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
    if (listener < 0 || caller < 0) test::skip("no MPTCP");
    sockaddr_in name{};
    socklen_t length = sizeof name;
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* address = reinterpret_cast<sockaddr*>(&name);
    CHECK(bind(listener, address, length) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, address, &length) == 0 && connect(caller, address, length) == 0);
    CHECK(accept(listener, nullptr, nullptr) >= 0);
    return 0;
}

// Its tracer has been told that it ends, and doesn't let it: a stop that can't be made again.
pid_t traced() {
    const pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    if (ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXIT) != 0) test::skip("ptrace is not allowed");
    CHECK(waitpid(child, &status, 0) == child && kill(child, SIGCONT) == 0);
    while (status >> 8 != (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
        CHECK(ptrace(PTRACE_CONT, child, nullptr, nullptr) == 0);
        CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    }
    return child;
}

// Does what can't be saved, and gives back the child that it needs, or 0.
struct Kind {
    const char* name;
    pid_t (*set_up)();
};

constexpr Kind kinds[] = {
    {"thread-files", thread_that<[] { CHECK(unshare(CLONE_FILES) == 0); }>},
    {"thread-seccomp", thread_that<[] { seccomp(SYS_setsid, SECCOMP_RET_KILL_PROCESS); }>},
    {"thread-network", thread_that<[] { namespace_of_its_own<CLONE_NEWNET>(); }>},
    {"seccomp", seccomp_of_its_own},
    {"seccomp, restart", seccomp_restart},
    {"seccomp listener", seccomp_listener},
    {"seccomp strict", seccomp_strict},
    {"interface of its network", interface_of_own_network},
    {"veth to the outside", veth_to_the_outside},
    {"pids of children beside threads", pids_of_children_beside_threads},
    {"pids come into from outside", pids_come_into},
    {"pids of a static program", [] { return pids_of_a_static_program(CAIRN_PIDS_MAKER); }},
    {"file of the proc of its pids", file_of_own_proc},
    {"memory", shared_memory},
    {"descriptor table", table_shared_by_siblings},
    {"folders", shared_by_clone<CLONE_FS, nothing>},
    {"semaphore undo", shared_by_clone<CLONE_SYSVSEM, have_to_undo>},
    {"vfork", asleep_in_vfork},
    {"io-uring-thread", io_uring<IORING_SETUP_SQPOLL>},
    {"io-uring", io_uring_under_way},
    {"io-uring-eventfd", io_uring_with_an_eventfd},
    {"queue", queue_whose_socket_is_closed},
    {"Linux AIO", linux_aio},
    {"packet ring", packet_ring},
    {"kernel TLS", kernel_tls},
    {"socket of another family", socket_of_another_family},
    {"vsock", connected_vsock},
    {"mptcp", connected_mptcp},
    {"traced", traced},
};

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
}  // namespace

int main(int argc, char** argv) {
    CHECK(argc == 2);
    test::case_name = argv[1];
    const auto* kind =
        std::ranges::find_if(kinds, [&](const Kind& each) { return std::strcmp(each.name, argv[1]) == 0; });
    if (kind == std::end(kinds)) test::failed(__FILE__, __LINE__, "unknown kind");
    const pid_t sleeper = start_sleeper();
    const pid_t child = kind->set_up();
    test::serve([&](bool last) {
        if (child > 0) CHECK(waitpid(child, nullptr, WNOHANG) == 0);
        CHECK(waitpid(sleeper, nullptr, WNOHANG) == 0);
        if (last) kill(sleeper, SIGKILL);
        if (last && child > 0) kill(child, SIGKILL);
    });
}
