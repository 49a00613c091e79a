// What ptrace(2) tells of those who have another number among the programs than in the kernel.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "hijack/raw.h"
#include "test/hijack/subject.h"
#include "test/hijack/subject_ids.h"

namespace raw = cairn::hijack::raw;

namespace subject {
namespace {

volatile pid_t seen_sender = 0;

void sees_sender(int, siginfo_t* info, void*) {
    seen_sender = info->si_pid;
}

// By libc's function and by its syscall().
long ask(bool by_number, __ptrace_request request, pid_t who, void* address, void* data) {
    return by_number ? syscall(SYS_ptrace, request, who, address, data) : ptrace(request, who, address, data);
}

// Ends with 0 if the second signal seems to have been sent by itself, as its tracer has it.
int traced_life() {
    struct sigaction action = {};
    action.sa_sigaction = sees_sender;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, nullptr);
    sigset_t one, before;  // it must not come between the look and the wait
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    EXPECT(sigprocmask(SIG_BLOCK, &one, &before) == 0);
    EXPECT(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0);
    raise(SIGSTOP);
    const pid_t child = fork();
    if (child == 0) _exit(getpid() == raw::pid().number() ? 1 : 0);
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    while (seen_sender == 0) sigsuspend(&before);
    return seen_sender == getpid() ? 0 : 2;
}

pid_t await(pid_t who, int wanted) {
    int status = 0;
    const pid_t got = waitpid(who, &status, __WALL);
    EXPECT(got > 0 && WIFSTOPPED(status) && status >> 8 == wanted);
    return got;
}

void let_run(pid_t who, int signal) {
    EXPECT(ptrace(PTRACE_CONT, who, nullptr, reinterpret_cast<void*>(static_cast<long>(signal))) == 0);
}

}  // namespace

void traced_newcomer(bool by_number) {
    alarm(30);  // who isn't known by the number that was told is waited for in vain
    const auto request = [=](__ptrace_request what, pid_t who, void* address, void* data) {
        return ask(by_number, what, who, address, data);
    };
    const pid_t tracee = fork();
    if (tracee == 0) _exit(traced_life());
    await(tracee, SIGSTOP);
    EXPECT(request(PTRACE_SETOPTIONS, tracee, nullptr, reinterpret_cast<void*>(PTRACE_O_TRACEFORK)) == 0);
    let_run(tracee, 0);
    await(tracee, SIGTRAP | PTRACE_EVENT_FORK << 8);
    unsigned long born = 0;
    EXPECT(request(PTRACE_GETEVENTMSG, tracee, nullptr, &born) == 0);
    const auto child = static_cast<pid_t>(born);
    EXPECT(child > 0 && child != tracee);
    await(child, SIGSTOP);
    let_run(tracee, 0);
    let_run(child, 0);
    int status = -1;
    EXPECT(waitpid(child, &status, __WALL) == child && status == 0);  // it goes by another number
    await(tracee, SIGCHLD);
    let_run(tracee, SIGCHLD);

    siginfo_t info = {};
    EXPECT(kill(tracee, SIGUSR1) == 0);
    await(tracee, SIGUSR1);
    EXPECT(request(PTRACE_GETSIGINFO, tracee, nullptr, &info) == 0 && info.si_pid == getpid());
    EXPECT(kill(tracee, SIGUSR2) == 0);
    __ptrace_peeksiginfo_args which = {.off = 0, .flags = PTRACE_PEEKSIGINFO_SHARED, .nr = 1};
    siginfo_t waiting = {};
    EXPECT(request(PTRACE_PEEKSIGINFO, tracee, &which, &waiting) == 1);
    EXPECT(waiting.si_signo == SIGUSR2 && waiting.si_pid == getpid());
    errno = 0;
    EXPECT(request(PTRACE_SETSIGINFO, tracee, nullptr, reinterpret_cast<void*>(8)) == -1 && errno == EFAULT);
    info.si_pid = tracee;
    EXPECT(request(PTRACE_SETSIGINFO, tracee, nullptr, &info) == 0 && info.si_pid == tracee);
    let_run(tracee, SIGUSR1);
    await(tracee, SIGUSR2);
    let_run(tracee, 0);
    EXPECT(waitpid(tracee, &status, __WALL) == tracee && status == 0);
    alarm(0);
}

}  // namespace subject
