#include "witness/inside.h"

#include <elf.h>
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <sstream>

#include "witness/proc_text.h"
#include "witness/stopped.h"

namespace cairn::witness {
namespace {

// Below a thread's stack pointer and its red zone nothing is of meaning; what stood there is put back.
constexpr std::size_t scratch_size = 512;

class Inside {
  public:
    Inside(Facts& facts, StoppedThread& thread, std::uint64_t instruction)
        : facts_(facts),
          thread_(thread),
          instruction_(instruction),
          scratch_((thread.registers().rsp - 1024) & ~63ULL) {
        usable_ = instruction != 0 && move(false);
        saved_ = bytes_;
    }
    ~Inside() {
        if (!usable_) return;
        bytes_ = saved_;
        move(true);
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    // NAME is what the call has returned and, if it writes something, what it has written.
    void ask(const std::string& name, long number, std::array<std::uint64_t, 6> arguments,
             std::size_t written = 0) {
        if (!usable_) return;
        bytes_.fill(0);
        if (!move(true)) return;
        const auto result = thread_.call(instruction_, number, arguments);
        if (!result) return;
        if (*result < 0 || written == 0) {
            facts_.put(name, *result);
            return;
        }
        if (move(false)) facts_.put_bytes(name, std::span(bytes_).first(written));
    }
    [[nodiscard]] std::uint64_t scratch() const { return scratch_; }

  private:
    bool move(bool into) {
        const iovec here{bytes_.data(), bytes_.size()},
            there{reinterpret_cast<void*>(scratch_), bytes_.size()};
        const auto copy = into ? &process_vm_writev : &process_vm_readv;
        return copy(thread_.tid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes_.size());
    }

    Facts& facts_;
    StoppedThread& thread_;
    std::uint64_t instruction_ = 0, scratch_ = 0;
    std::array<unsigned char, scratch_size> bytes_{}, saved_{};
    bool usable_ = false;
};

void see_registers(Facts& facts, const std::string& name, const StoppedThread& thread) {
    const user_regs_struct& registers = thread.registers();
    const auto put = [&](const char* which, std::uint64_t value) {
        facts.put(fmt::format("{}/registers/{}", name, which), fmt::format("{:x}", value));
    };
    put("rip", registers.rip), put("rsp", registers.rsp), put("rbp", registers.rbp),
        put("rax", registers.rax);
    put("orig_rax", registers.orig_rax), put("rdi", registers.rdi), put("rsi", registers.rsi),
        put("rdx", registers.rdx);
    put("r10", registers.r10), put("r8", registers.r8), put("r9", registers.r9), put("rbx", registers.rbx);
    put("r12", registers.r12), put("r13", registers.r13), put("r14", registers.r14),
        put("r15", registers.r15);
    put("eflags", registers.eflags), put("fs_base", registers.fs_base), put("gs_base", registers.gs_base);
    put("fs", registers.fs), put("gs", registers.gs), put("cs", registers.cs), put("ss", registers.ss),
        put("ds", registers.ds), put("es", registers.es);
    std::array<unsigned char, 16384> state{};
    iovec area{state.data(), state.size()};
    if (ptrace(PTRACE_GETREGSET, thread.tid(), NT_X86_XSTATE, &area) == 0)
        facts.put_bytes(name + "/registers/xstate", std::span(state).first(area.iov_len));
}

void see_signals(Facts& facts, const std::string& name, pid_t tid) {
    std::uint64_t mask = 0;
    if (ptrace(PTRACE_GETSIGMASK, tid, sizeof mask, &mask) == 0)
        facts.put(name + "/signals/mask", fmt::format("{:016x}", mask));
    for (const auto& [flags, which] :
         {std::pair<std::uint32_t, const char*>(0, "thread"), {PTRACE_PEEKSIGINFO_SHARED, "process"}}) {
        __ptrace_peeksiginfo_args asked{.off = 0, .flags = flags, .nr = 1};
        siginfo_t pending{};
        for (; ptrace(PTRACE_PEEKSIGINFO, tid, &asked, &pending) == 1; ++asked.off)
            facts.put_bytes(fmt::format("{}/signals/pending of the {}/{:02}", name, which, asked.off),
                            {reinterpret_cast<const unsigned char*>(&pending), 64});
    }
}

// Returns the address of what rseq(2) has registered; 0 if nothing.
std::uint64_t see_rseq(Facts& facts, const std::string& name, pid_t tid) {
    std::array<unsigned char, 24> area{};
    constexpr int get_rseq = 0x420f;  // PTRACE_GET_RSEQ_CONFIGURATION, since Linux 5.13
    const long size = ptrace(static_cast<__ptrace_request>(get_rseq), tid, area.size(), area.data());
    if (size <= 0) return 0;
    facts.put_bytes(name + "/rseq", std::span(area).first(static_cast<std::size_t>(size)));
    std::uint64_t address = 0;
    std::memcpy(&address, area.data(), sizeof address);
    return address;
}

void see_traced(Facts& facts, const std::string& name, pid_t tid) {
    std::array<unsigned char, 64> area{};
    constexpr int get_dispatch = 0x4211;  // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, since Linux 6.4
    if (ptrace(static_cast<__ptrace_request>(get_dispatch), tid, 32, area.data()) == 0)
        facts.put_bytes(name + "/syscall user dispatch", std::span(area).first(32));
    for (unsigned long filter = 0;; ++filter) {
        const long count = ptrace(static_cast<__ptrace_request>(PTRACE_SECCOMP_GET_FILTER), tid, filter, 0);
        if (count <= 0) break;
        std::vector<unsigned char> code(static_cast<std::size_t>(count) * 8);
        if (ptrace(static_cast<__ptrace_request>(PTRACE_SECCOMP_GET_FILTER), tid, filter, code.data()) !=
            count)
            break;
        facts.put_bytes(fmt::format("{}/seccomp filter/{:02}", name, filter), code);
    }
}

// What each thread has for itself.
void ask_thread(Inside& inside, const std::string& name) {
    inside.ask(name + "/calls/sigaltstack", SYS_sigaltstack, {0, inside.scratch()}, sizeof(stack_t));
    for (const auto& [what, which] :
         {std::pair<int, const char*>(PR_GET_PDEATHSIG, "PDEATHSIG"), {PR_GET_TSC, "TSC"}})
        inside.ask(fmt::format("{}/calls/prctl {}", name, which), SYS_prctl,
                   {static_cast<std::uint64_t>(what), inside.scratch()}, sizeof(int));
    for (const auto& [what, which] : {std::pair<int, const char*>(PR_GET_KEEPCAPS, "KEEPCAPS"),
                                      {PR_GET_TIMING, "TIMING"},
                                      {PR_GET_SECUREBITS, "SECUREBITS"},
                                      {PR_GET_TIMERSLACK, "TIMERSLACK"},
                                      {PR_GET_NO_NEW_PRIVS, "NO_NEW_PRIVS"},
                                      {PR_GET_IO_FLUSHER, "IO_FLUSHER"},
                                      {PR_MCE_KILL_GET, "MCE_KILL"}})
        inside.ask(fmt::format("{}/calls/prctl {}", name, which), SYS_prctl,
                   {static_cast<std::uint64_t>(what)});
    for (std::uint64_t what = 0; what < 3; ++what)
        inside.ask(fmt::format("{}/calls/prctl SPECULATION {}", name, what), SYS_prctl,
                   {PR_GET_SPECULATION_CTRL, what});
    inside.ask(name + "/calls/prctl TID_ADDRESS", SYS_prctl, {PR_GET_TID_ADDRESS, inside.scratch()},
               sizeof(void*));
    constexpr std::uint64_t arch_get_cpuid = 0x1011;
    inside.ask(name + "/calls/arch_prctl CPUID", SYS_arch_prctl, {arch_get_cpuid});
    inside.ask(name + "/calls/get_mempolicy", SYS_get_mempolicy,
               {inside.scratch(), inside.scratch() + 64, 1024}, 192);
    inside.ask(name + "/calls/getpriority", SYS_getpriority, {0, 0});
}

// What the process has as a whole; through any of its threads.
void ask_process(Inside& inside, const std::string& name) {
    constexpr int signals = 64;
    for (int number = 1; number <= signals; ++number)
        inside.ask(fmt::format("{}/calls/sigaction/{:02}", name, number), SYS_rt_sigaction,
                   {static_cast<std::uint64_t>(number), 0, inside.scratch(), 8}, 32);
    for (std::uint64_t which = 0; which < 3; ++which)
        inside.ask(fmt::format("{}/calls/getitimer {}", name, which), SYS_getitimer,
                   {which, inside.scratch()}, 32);
    inside.ask(name + "/calls/prctl CHILD_SUBREAPER", SYS_prctl, {PR_GET_CHILD_SUBREAPER, inside.scratch()},
               sizeof(int));
    constexpr int pr_get_mdwe = 66, pr_get_memory_merge = 68;  // <linux/prctl.h>: since Linux 6.3, 6.4
    for (const auto& [what, which] : {std::pair<int, const char*>(PR_GET_DUMPABLE, "DUMPABLE"),
                                      {PR_GET_THP_DISABLE, "THP_DISABLE"},
                                      {pr_get_mdwe, "MDWE"},
                                      {pr_get_memory_merge, "MEMORY_MERGE"}})
        inside.ask(fmt::format("{}/calls/prctl {}", name, which), SYS_prctl,
                   {static_cast<std::uint64_t>(what)});
    inside.ask(name + "/calls/brk", SYS_brk, {0});
    inside.ask(name + "/calls/getgroups", SYS_getgroups, {64, inside.scratch()}, 256);
    constexpr std::uint64_t get_registrations = 512;  // MEMBARRIER_CMD_GET_REGISTRATIONS
    inside.ask(name + "/calls/membarrier registrations", SYS_membarrier, {get_registrations});
}

}  // namespace

namespace {

// A thread that is stopped in one of these calls, or in none, goes on in it afterwards as if nothing had been
// (signal(7)). Others end early, with EINTR or with a part of what they were to do, and are looked at from
// outside alone.
bool may_be_stopped(pid_t tid) {
    std::istringstream text(text_of(fmt::format("/proc/{}/syscall", tid)).value_or(""));
    std::string call;
    text >> call;
    if (call == "running" || call == "-1") return true;
    constexpr std::array calls{SYS_clock_nanosleep, SYS_nanosleep,     SYS_restart_syscall, SYS_futex,
                               SYS_pause,           SYS_rt_sigsuspend, SYS_wait4,           SYS_waitid};
    return std::ranges::any_of(calls, [&](long each) { return call == std::to_string(each); });
}

}  // namespace

void see_inside(Facts& facts, pid_t pid, const std::vector<pid_t>& threads, LibcLayout& layout) {
    const std::uint64_t instruction = find_syscall(pid);
    bool process_asked = false;
    for (const pid_t tid : threads) {
        const std::string name = fmt::format("{}/task/{}", pid, tid);
        if (!may_be_stopped(tid)) continue;
        auto thread = StoppedThread::stop(tid);
        if (!thread) {
            facts.put(name + "/stopped", thread.error().what);
            continue;
        }
        see_registers(facts, name, *thread);
        see_signals(facts, name, tid);
        see_traced(facts, name, tid);
        layout.learn(tid, {thread->registers().fs_base, thread->registers().rsp}, see_rseq(facts, name, tid));
        Inside inside(facts, *thread, thread->may_call() ? instruction : 0);
        ask_thread(inside, name);
        if (!std::exchange(process_asked, true)) ask_process(inside, std::to_string(pid));
    }
}

}  // namespace cairn::witness
