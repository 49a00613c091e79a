// With virtual ids: everything that takes or gives an id uses the virtual one. The test that starts us has
// put our own ids into the map; children and threads put theirs there themselves, as a restart would have.
#include "test/hijack/subject_ids.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <pty.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "hijack/raw.h"
#include "test/hijack/subject.h"

extern "C" int pidfd_open(pid_t, unsigned) noexcept;

namespace raw = cairn::hijack::raw;

// libc's, declared by libcap only.
extern "C" int capget(cap_user_header_t header, cap_user_data_t data) noexcept;
extern "C" int capset(cap_user_header_t header, const __user_cap_data_struct* data) noexcept;

namespace subject {

void make_virtual() {
    const cairn::KernelId tid = raw::tid();
    const cairn::ProgramId name(tid.number() + far);
    EXPECT(cairn::insert_id(region()->ids, name, tid));
    if (tid == raw::pid()) {
        const std::int32_t slot = cairn::find_slot(*region(), tid);
        EXPECT(slot != cairn::no_slot);
        cairn::set_program_pid(region()->slots[slot], tid, name);
    }
    const auto* field = static_cast<const std::uint32_t*>(dlsym(RTLD_DEFAULT, "_thread_db_pthread_tid"));
    EXPECT(field != nullptr);
    *reinterpret_cast<std::int32_t*>(pthread_self() + field[2]) = name.number();
}

Child::Child(std::function<int(int)> run) {
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const pid_t born = fork();
    EXPECT(born >= 0);
    if (born == 0) {
        close(ends[0]);
        make_virtual();
        const std::int32_t me = raw::pid().number();
        char go = 0;
        EXPECT(write(ends[1], &me, sizeof me) == sizeof me);
        EXPECT(read(ends[1], &go, 1) == 1);
        std::_Exit(run(ends[1]));
    }
    close(ends[1]);
    control = ends[0];
    EXPECT(read(control, &real, sizeof real) == sizeof real);  // fork's answer may be of before or after it
    id = real + far;
    EXPECT(born == real || born == id);
}

void Child::go() {
    const char go = 'g';
    EXPECT(write(control, &go, 1) == 1);
}

void Child::expect_end(int status_wanted) {
    int status = -1;
    EXPECT(waitpid(id, &status, 0) == id);
    if (status != status_wanted) std::fprintf(stderr, "status %x, wanted %x\n", status, status_wanted);
    EXPECT(status == status_wanted);
    close(control);
}

namespace {

int wait_for_end(int control) {
    char byte;
    return read(control, &byte, 1) == 0 ? 0 : 1;
}

void who_am_i() {
    const pid_t me = raw::pid().number() + far;
    EXPECT(getpid() == me);
    EXPECT(gettid() == me);
    EXPECT(syscall(SYS_getpid) == me && syscall(SYS_gettid) == me);
    EXPECT(getpgid(0) == getpgrp() && getpgid(me) == getpgrp());
    EXPECT(getsid(0) == getsid(me));
    EXPECT(kill(me, 0) == 0);
    errno = 0;
    EXPECT(kill(raw::pid().number(), 0) == -1 && errno == ESRCH);  // nobody goes by that number
    EXPECT(tgkill(me, me, 0) == 0 && syscall(SYS_tgkill, me, me, 0) == 0);
    Child child([me](int) { return getppid() == me && syscall(SYS_getppid) == me ? 0 : 1; });
    child.go();
    child.expect_end(0);
}

void waiting() {
    int status = -1;
    struct rusage usage;
    siginfo_t info = {};
    const auto exits = [](int) { return 3; };
    Child a(exits), b(exits), c(exits), d(exits), e(exits), f(exits);
    EXPECT(waitpid(a.id, &status, WNOHANG) == 0);
    a.go();
    EXPECT(waitid(P_PID, static_cast<id_t>(a.id), &info, WEXITED | WNOWAIT) == 0 && info.si_pid == a.id);
    EXPECT(waitpid(a.id, &status, 0) == a.id && WEXITSTATUS(status) == 3);
    b.go();
    EXPECT(wait4(b.id, &status, 0, &usage) == b.id);
    c.go();
    EXPECT(wait3(&status, 0, &usage) == c.id);
    d.go();
    EXPECT(wait(&status) == d.id);
    EXPECT(setpgid(e.id, e.id) == 0 && getpgid(e.id) == e.id);
    EXPECT(setpgid(f.id, e.id) == 0 && getpgid(f.id) == e.id);
    EXPECT(killpg(e.id, 0) == 0 && kill(-e.id, 0) == 0);
    e.go();
    EXPECT(waitpid(-e.id, &status, 0) == e.id);
    f.go();
    info = {};
    EXPECT(waitid(P_PGID, static_cast<id_t>(e.id), &info, WEXITED) == 0 && info.si_pid == f.id);
    EXPECT(waitpid(e.id, &status, 0) == -1 && errno == ECHILD);
}

volatile pid_t seen_pid;
volatile int seen_value;
void sees_sender(int, siginfo_t* info, void*) {
    seen_pid = info->si_pid;
    seen_value = info->si_value.sival_int;
}

void senders() {
    struct sigaction action = {}, old = {};
    action.sa_sigaction = sees_sender;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    EXPECT(sigaction(SIGUSR1, &action, nullptr) == 0);
    EXPECT(sigaction(SIGUSR1, nullptr, &old) == 0 && old.sa_sigaction == sees_sender &&
           (old.sa_flags & SA_SIGINFO));
    const pid_t me = getpid();
    Child first([=](int) { return kill(me, SIGUSR1); });
    first.go();
    first.expect_end(0);
    EXPECT(seen_pid == first.id);
    EXPECT(sigqueue(me, SIGUSR1, sigval{.sival_int = 77}) == 0);
    EXPECT(seen_pid == me && seen_value == 77);
    EXPECT(raise(SIGUSR1) == 0);
    EXPECT(seen_pid == me);
    // signal() gives the program's own handler back, which it may put in again
    const auto before = signal(SIGUSR1, SIG_IGN);
    EXPECT(before == reinterpret_cast<sighandler_t>(reinterpret_cast<void*>(sees_sender)));
    EXPECT(sigaction(SIGUSR1, &old, nullptr) == 0);

    EXPECT(sigaction(SIGCHLD, &action, nullptr) == 0);
    Child dying([](int) { return 0; });
    dying.go();
    dying.expect_end(0);
    EXPECT(seen_pid == dying.id);
    action.sa_handler = SIG_DFL;
    EXPECT(sigaction(SIGCHLD, &action, &old) == 0 && old.sa_sigaction == sees_sender);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    EXPECT(sigprocmask(SIG_BLOCK, &set, nullptr) == 0);
    siginfo_t info = {};
    const timespec second = {5, 0};
    const auto from_child = [&](auto receive) {
        Child child([=](int) { return kill(me, SIGUSR2); });
        child.go();
        receive();
        EXPECT(info.si_pid == child.id);
        child.expect_end(0);
    };
    from_child([&] { EXPECT(sigwaitinfo(&set, &info) == SIGUSR2); });
    from_child([&] { EXPECT(sigtimedwait(&set, &info, &second) == SIGUSR2); });
    const int fd = signalfd(-1, &set, SFD_CLOEXEC);
    from_child([&] {
        signalfd_siginfo one = {};
        EXPECT(read(fd, &one, sizeof one) == sizeof one);
        info.si_pid = static_cast<pid_t>(one.ssi_pid);
    });
    close(fd);
    EXPECT(sigprocmask(SIG_UNBLOCK, &set, nullptr) == 0);
}

void scheduling() {
    Child child(wait_for_end);
    const auto who = static_cast<id_t>(child.id);
    EXPECT(setpriority(PRIO_PROCESS, who, 5) == 0 && getpriority(PRIO_PROCESS, who) == 5);
    sched_param parameters = {};
    cpu_set_t cpus;
    timespec interval;
    EXPECT(sched_getscheduler(child.id) == SCHED_OTHER);
    EXPECT(sched_setscheduler(child.id, SCHED_BATCH, &parameters) == 0);
    EXPECT(sched_getscheduler(child.id) == SCHED_BATCH);
    EXPECT(sched_getparam(child.id, &parameters) == 0 && sched_setparam(child.id, &parameters) == 0);
    EXPECT(sched_rr_get_interval(child.id, &interval) == 0);
    EXPECT(sched_getaffinity(child.id, sizeof cpus, &cpus) == 0);
    EXPECT(sched_setaffinity(child.id, sizeof cpus, &cpus) == 0);
    rlimit limit;
    EXPECT(prlimit(child.id, RLIMIT_NOFILE, nullptr, &limit) == 0);
    static int word = 42;
    int copy = 0;
    const iovec here = {&copy, sizeof copy}, there = {&word, sizeof word};
    EXPECT(process_vm_readv(child.id, &here, 1, &there, 1, 0) == sizeof copy && copy == 42);
    EXPECT(process_vm_writev(child.id, &here, 1, &there, 1, 0) == sizeof copy);
    const int fd = pidfd_open(child.id, 0);
    EXPECT(fd >= 0);
    close(fd);
    EXPECT(syscall(SYS_kcmp, getpid(), child.id, KCMP_FILE, 2, 2) == 0);
    clockid_t clock;
    EXPECT(clock_getcpuclockid(child.id, &clock) == 0);
    for (const pid_t who_has : {getpid(), child.id, pid_t{0}}) {
        __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, who_has};
        __user_cap_data_struct data[2] = {};
        EXPECT(capget(&header, data) == 0 && header.pid == who_has);
        EXPECT(syscall(SYS_capget, &header, data) == 0);
        if (who_has == getpid()) EXPECT(capset(&header, data) == 0);
        header.version = 1;  // unknown: the kernel writes the one that it likes
        EXPECT(capget(&header, nullptr) == 0 && header.version == _LINUX_CAPABILITY_VERSION_3);
    }
    errno = 0;
    EXPECT(capget(reinterpret_cast<cap_user_header_t>(8), nullptr) == -1 && errno == EFAULT);
    EXPECT(ptrace(PTRACE_SEIZE, child.id, nullptr, nullptr) == 0);
    EXPECT(ptrace(PTRACE_INTERRUPT, child.id, nullptr, nullptr) == 0);
    int status = 0;
    EXPECT(waitpid(child.id, &status, 0) == child.id && WIFSTOPPED(status));
    EXPECT(ptrace(PTRACE_DETACH, child.id, nullptr, nullptr) == 0);
    EXPECT(kill(child.id, SIGKILL) == 0);
    child.expect_end(SIGKILL);
}

void owners() {
    Child child(wait_for_end);
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    EXPECT(fcntl(pair[0], F_SETOWN, child.id) == 0 && fcntl(pair[0], F_GETOWN) == child.id);
    EXPECT(setpgid(child.id, child.id) == 0);
    EXPECT(fcntl(pair[0], F_SETOWN, -child.id) == 0 && fcntl(pair[0], F_GETOWN) == -child.id);
    f_owner_ex owner = {F_OWNER_TID, child.id}, found = {};
    EXPECT(fcntl(pair[0], F_SETOWN_EX, &owner) == 0 && owner.pid == child.id);
    EXPECT(fcntl(pair[0], F_GETOWN_EX, &found) == 0 && found.pid == child.id && found.type == F_OWNER_TID);
    int id = child.id;
    EXPECT(ioctl(pair[0], FIOSETOWN, &id) == 0 && ioctl(pair[0], FIOGETOWN, &id) == 0 && id == child.id);
    child.go();
    kill(child.id, SIGKILL);
    child.expect_end(SIGKILL);

    ucred credentials = {};
    socklen_t size = sizeof credentials;
    EXPECT(getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
           credentials.pid == getpid());
    const int on = 1;
    EXPECT(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    char byte = 'x';
    iovec part = {&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(ucred))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_CREDENTIALS;
    head->cmsg_len = CMSG_LEN(sizeof(ucred));
    credentials = {getpid(), getuid(), getgid()};
    std::memcpy(CMSG_DATA(head), &credentials, sizeof credentials);
    EXPECT(sendmsg(pair[0], &message, 0) == 1);
    std::memcpy(&credentials, CMSG_DATA(head), sizeof credentials);
    EXPECT(credentials.pid == getpid());  // our own message isn't touched
    std::memset(room, 0, sizeof room);
    EXPECT(recvmsg(pair[1], &message, 0) == 1);
    head = CMSG_FIRSTHDR(&message);
    EXPECT(head != nullptr && head->cmsg_type == SCM_CREDENTIALS);
    std::memcpy(&credentials, CMSG_DATA(head), sizeof credentials);
    EXPECT(credentials.pid == getpid());

    char name[] = "/tmp/cairn-lock-XXXXXX";
    const int file = mkstemp(name);
    EXPECT(file >= 0);
    unlink(name);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    EXPECT(fcntl(file, F_SETLK, &lock) == 0);
    Child asks([=, me = getpid()](int) {
        struct flock asked = {};
        asked.l_type = F_WRLCK;
        return fcntl(file, F_GETLK, &asked) == 0 && asked.l_pid == me ? 0 : 1;
    });
    asks.go();
    asks.expect_end(0);
    close(file);
    close(pair[0]);
    close(pair[1]);
}

void system_v() {
    const int memory = shmget(IPC_PRIVATE, 4096, 0600), semaphores = semget(IPC_PRIVATE, 1, 0600);
    EXPECT(memory >= 0 && semaphores >= 0);
    shmid_ds about;
    EXPECT(shmctl(memory, IPC_STAT, &about) == 0 && about.shm_cpid == getpid());
    EXPECT(semctl(semaphores, 0, SETVAL, 3) == 0 && semctl(semaphores, 0, GETVAL) == 3);
    EXPECT(semctl(semaphores, 0, GETPID) == getpid());
    EXPECT(shmctl(memory, IPC_RMID, nullptr) == 0 && semctl(semaphores, 0, IPC_RMID) == 0);
}

void terminal() {
    int master = -1, slave = -1;
    EXPECT(openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
    Child leader([=](int) {
        const pid_t me = getpid();
        EXPECT(setsid() == me && getsid(0) == me && getpgrp() == me);
        EXPECT(ioctl(slave, TIOCSCTTY, 0) == 0);
        EXPECT(tcgetsid(slave) == me && tcgetpgrp(slave) == me);
        signal(SIGTTOU, SIG_IGN);
        Child job([](int) { return 0; });
        EXPECT(setpgid(job.id, job.id) == 0);
        EXPECT(tcsetpgrp(slave, job.id) == 0 && tcgetpgrp(slave) == job.id);
        int id = 0;
        EXPECT(ioctl(slave, TIOCGPGRP, &id) == 0 && id == job.id);
        EXPECT(ioctl(slave, TIOCGSID, &id) == 0 && id == me);
        id = me;
        EXPECT(ioctl(slave, TIOCSPGRP, &id) == 0 && tcgetpgrp(slave) == me);
        job.go();
        job.expect_end(0);
        return 0;
    });
    EXPECT(getsid(leader.id) == getsid(0));
    leader.go();
    leader.expect_end(0);
    close(master);
    close(slave);
}

void paths() {
    Child child(wait_for_end);
    const std::string who = "/proc/" + std::to_string(child.id);
    const std::string task = who + "/task/" + std::to_string(child.id) + "/comm";
    const std::string own = "/proc/self/task/" + std::to_string(getpid()) + "/comm";
    struct stat status;
    EXPECT(stat(who.c_str(), &status) == 0 && lstat((who + "/fd").c_str(), &status) == 0);
    EXPECT(fstatat(AT_FDCWD, who.c_str(), &status, 0) == 0);
    EXPECT(access((who + "/stat").c_str(), R_OK) == 0 && faccessat(AT_FDCWD, task.c_str(), R_OK, 0) == 0);
    for (const std::string& path : {who + "/stat", task, own}) {
        const int fd = open(path.c_str(), O_RDONLY);
        EXPECT(fd >= 0);
        close(fd);
        const int other = openat(AT_FDCWD, path.c_str(), O_RDONLY);
        EXPECT(other >= 0);
        close(other);
        FILE* file = fopen(path.c_str(), "r");
        EXPECT(file != nullptr);
        fclose(file);
    }
    DIR* folder = opendir((who + "/fd").c_str());
    EXPECT(folder != nullptr);
    closedir(folder);
    char link[256] = {}, exe[256] = {};
    EXPECT(readlink((who + "/exe").c_str(), link, sizeof link - 1) > 0);
    EXPECT(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0 && std::strcmp(link, exe) == 0);
    std::memset(link, 0, sizeof link);
    EXPECT(readlink("/proc/self", link, sizeof link - 1) > 0);
    EXPECT(std::to_string(getpid()) == link);
    std::memset(link, 0, sizeof link);
    EXPECT(readlink("/proc/thread-self", link, sizeof link - 1) > 0);
    EXPECT(std::to_string(getpid()) + "/task/" + std::to_string(gettid()) == link);
    const std::string real = "/proc/" + std::to_string(child.real) + "/stat";
    EXPECT(access(real.c_str(), R_OK) == -1 && errno == ENOENT);  // nobody goes by that number
    close(child.control);
    EXPECT(waitpid(child.id, nullptr, 0) == child.id);
}

// The kernel finds them out, and short ones at the end of what is mapped are good.
void wrong_paths() {
    constexpr std::size_t page = 4096;
    char* const pages = static_cast<char*>(
        mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT(pages != MAP_FAILED && munmap(pages + page, page) == 0);
    struct stat status;
    for (const char* wrong : {reinterpret_cast<const char*>(8), static_cast<const char*>(pages + page)}) {
        EXPECT(access(wrong, F_OK) == -1 && errno == EFAULT);
        EXPECT(open(wrong, O_RDONLY) == -1 && errno == EFAULT);
        EXPECT(stat(wrong, &status) == -1 && errno == EFAULT);
        EXPECT(chdir(wrong) == -1 && errno == EFAULT);
    }
    char* const last = pages + page - sizeof "/proc";
    std::strcpy(last, "/proc");
    EXPECT(stat(last, &status) == 0 && S_ISDIR(status.st_mode));
    EXPECT(munmap(pages, page) == 0);
}

}  // namespace

int ids(int, char**) {
    const std::pair<const char*, void (*)()> parts[] = {
        {"who_am_i", who_am_i},     {"waiting", waiting},   {"senders", senders},
        {"scheduling", scheduling}, {"owners", owners},     {"terminal", terminal},
        {"paths", paths},           {"system_v", system_v}, {"wrong_paths", wrong_paths},
    };
    EXPECT(region() != nullptr && is_member());
    for (const auto& [name, part] : parts) {
        if (true) std::fprintf(stderr, "%s\n", name);
        part();
    }
    return 0;
}

}  // namespace subject
