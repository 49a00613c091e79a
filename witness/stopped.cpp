#include "witness/stopped.h"

#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <sstream>
#include <string>
#include <utility>

#include "witness/proc_text.h"

namespace cairn::witness {
namespace {

// Waits for the thread's next stop; 0 if it has ended.
int next_stop(pid_t tid) {
    int status = 0;
    while (waitpid(tid, &status, __WALL) < 0)
        if (errno != EINTR) return 0;
    return WIFSTOPPED(status) ? status : 0;
}

// "Seccomp:" and "Seccomp_filters:" of /proc/ID/status.
std::string filters_of(const std::string& id) {
    std::istringstream lines(text_of("/proc/" + id + "/status").value_or(""));
    std::string all;
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("Seccomp")) all += line + '\n';
    return all;
}

// Nobody asks its filters as long as we trace it, if we may say so; those that we have too let us ask.
bool frees_of_filters(pid_t tid) {
    const std::string its = filters_of(std::to_string(tid));
    if (its.find("Seccomp:\t0") != std::string::npos) return true;
    return ptrace(PTRACE_SETOPTIONS, tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP) == 0 ||
           its == filters_of("self");
}

}  // namespace

Result<StoppedThread> StoppedThread::stop(pid_t tid) {
    if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) != 0) return fail_errno("tracing");
    if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0) return fail_errno("interrupting {}", tid);
    for (;;) {
        const int status = next_stop(tid);
        if (status == 0) return fail("{} has ended", tid);
        if (status >> 16 == PTRACE_EVENT_STOP) break;
        // A signal that was on its way is delivered; the interruption is still to come.
        ptrace(PTRACE_CONT, tid, 0, WSTOPSIG(status));
    }
    user_regs_struct registers{};
    if (ptrace(PTRACE_GETREGS, tid, 0, &registers) != 0) return fail_errno("registers of {}", tid);
    StoppedThread thread(tid, registers);
    thread.may_call_ = frees_of_filters(tid);
    return thread;
}

StoppedThread::StoppedThread(StoppedThread&& other) noexcept
    : tid_(std::exchange(other.tid_, 0)), registers_(other.registers_), may_call_(other.may_call_) {}

StoppedThread::~StoppedThread() {
    if (tid_ != 0) ptrace(PTRACE_DETACH, tid_, 0, 0);
}

Result<std::int64_t> StoppedThread::call(std::uint64_t instruction, long number,
                                         std::span<const std::uint64_t> arguments) {
    user_regs_struct registers = registers_;
    registers.rip = instruction;
    registers.rax = static_cast<std::uint64_t>(number);
    registers.orig_rax = ~0ULL;  // no call that would have to be restarted
    std::array<std::uint64_t, 6> words{};
    std::ranges::copy(arguments, words.begin());
    registers.rdi = words[0], registers.rsi = words[1], registers.rdx = words[2];
    registers.r10 = words[3], registers.r8 = words[4], registers.r9 = words[5];
    if (ptrace(PTRACE_SETREGS, tid_, 0, &registers) != 0) return fail_errno("registers of {}", tid_);
    // To the call's beginning and to its end. A single step would end by a SIGTRAP that is forced upon a
    // program which ignores it.
    constexpr int at_call = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD
    int status = 0;
    for (int step = 0; step < 2; ++step) {
        if (ptrace(PTRACE_SYSCALL, tid_, 0, 0) != 0) return fail_errno("a call of {}", tid_);
        status = next_stop(tid_);
        if (status == 0) return std::exchange(tid_, 0), fail("a thread has ended during a call");
        if (status >> 8 != at_call) break;
    }
    if (ptrace(PTRACE_GETREGS, tid_, 0, &registers) != 0) return fail_errno("registers of {}", tid_);
    if (ptrace(PTRACE_SETREGS, tid_, 0, &registers_) != 0) return fail_errno("registers of {}", tid_);
    if (status >> 8 != at_call || registers.rip != instruction + 2)
        return fail("{} has got signal {} during a call", tid_, WSTOPSIG(status));
    return static_cast<std::int64_t>(registers.rax);
}

std::uint64_t find_syscall(pid_t pid) {
    std::istringstream lines(text_of("/proc/" + std::to_string(pid) + "/maps").value_or(""));
    for (std::string line; std::getline(lines, line);) {
        if (!line.ends_with("[vdso]")) continue;
        std::uint64_t start = 0, end = 0;
        const auto behind = std::from_chars(line.data(), line.data() + line.size(), start, 16);
        std::from_chars(behind.ptr + 1, line.data() + line.size(), end, 16);
        std::vector<unsigned char> code(end - start);
        const iovec here{code.data(), code.size()}, there{reinterpret_cast<void*>(start), code.size()};
        if (process_vm_readv(pid, &here, 1, &there, 1, 0) != static_cast<ssize_t>(code.size())) continue;
        for (std::size_t at = 0; at + 1 < code.size(); ++at)
            if (code[at] == 0x0f && code[at + 1] == 0x05) return start + at;
    }
    return 0;
}

}  // namespace cairn::witness
