// Runs inside a stopped process, started by a capture: see common/agent.h for the rules.
#include "common/agent.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <linux/prctl.h>
#include <linux/wait.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/landlock_room.h"
#include "common/protections.h"
#include "common/raw.h"
#include "common/region.h"
#include "hijack/agent/tracing.h"
#include "hijack/agent/waiting.h"

namespace cairn {
namespace {

using raw::call;
using waiting::capture_lives, waiting::no_signal, waiting::no_such_process, waiting::Patience;

constexpr std::uint64_t all_signals = ~0ULL;
constexpr unsigned close_range_unshare = 2;
// linux/keyctl.h
constexpr long keyctl_get_keyring_id = 0, keyctl_read = 11;
constexpr long thread_keyring = -1, process_keyring = -2;

struct KernelStack {
    std::uint64_t base;
    std::int32_t flags;
    std::uint64_t size;
};

Talk* talk_of(const AgentThread* self) {
    return reinterpret_cast<Talk*>(self->talk);
}

std::int64_t cpu_time(clockid_t clock) {
    timespec used = {};
    call(SYS_clock_gettime, clock, &used);
    return used.tv_sec * 1'000'000'000 + used.tv_nsec;
}

// How many keys are in a keyring that there is already: none is made by asking for it.
std::int32_t keys_in(long special) {
    const long keyring = call(SYS_keyctl, keyctl_get_keyring_id, special, 0);
    if (keyring <= 0) return 0;
    const long bytes = call(SYS_keyctl, keyctl_read, keyring, 0, 0);
    return bytes > 0 ? static_cast<std::int32_t>(bytes / 4) : 0;
}

// keyctl(2) would install one for who has none yet. A search doesn't; it finds those that have the name which
// pam_keyinit and joining without a name give them.
void collect_session_keyring(AgentProcess& process) {
    process.session_keyring = static_cast<std::int32_t>(call(SYS_request_key, "keyring", "_ses", nullptr, 0));
    if (process.session_keyring < 0) process.session_keyring = 0;
    const long bytes =
        process.session_keyring > 0 ? call(SYS_keyctl, keyctl_read, process.session_keyring, 0, 0) : 0;
    process.session_keys = bytes > 0 ? static_cast<std::int32_t>(bytes / 4) : 0;
}

bool finds_out(const Door& door, bool leader, AskLandlock ask) {
    if (door.restricts != 0) return ask != AskLandlock::never;
    if (door.placed != 0) return ask == AskLandlock::if_blind || ask == AskLandlock::promised;
    return leader && ask == AskLandlock::promised;
}

void collect_landlock(AgentThread* self, AskLandlock ask) {
    const auto* door = reinterpret_cast<const Door*>(self->door);
    self->landlock_room = finds_out(*door, self->leader != 0, ask) ? landlock_room() : landlock_not_asked;
}

void collect_thread(AgentThread* self) {
    KernelStack stack = {};
    call(SYS_sigaltstack, nullptr, &stack);
    self->altstack_base = stack.base;
    self->altstack_size = stack.size;
    self->altstack_flags = stack.flags;
    call(SYS_prctl, PR_GET_PDEATHSIG, &self->death_signal);
    call(SYS_prctl, PR_GET_TID_ADDRESS, &self->clear_child_tid);
    call(SYS_prctl, PR_GET_TSC, &self->tsc);
    self->timerslack = static_cast<std::uint64_t>(call(SYS_prctl, PR_GET_TIMERSLACK));
    self->securebits = static_cast<std::int32_t>(call(SYS_prctl, PR_GET_SECUREBITS));
    std::int64_t before = 0;
    // A program that doesn't load the library has no such variable, and perhaps no thread pointer either.
    const std::int64_t offset = reinterpret_cast<const Door*>(self->door)->cpu_tls;
    if (offset != 0 && self->no_variables == 0) asm("mov %%fs:(%1), %0" : "=r"(before) : "r"(offset));
    self->cpu_ns = before + cpu_time(CLOCK_THREAD_CPUTIME_ID);
    call(SYS_get_mempolicy, &self->memory_policy, self->memory_nodes, max_memory_nodes, 0, 0);
    // The processor, or who runs this machine, may know of no such fault (ENODEV).
    self->no_cpuid = self->ask_keys != 0 && call(SYS_arch_prctl, ARCH_GET_CPUID, 0) == 0 ? 1 : 0;
    self->keys = self->ask_keys != 0 ? keys_in(thread_keyring) : 0;
    self->memory_errors =
        self->ask_keys != 0 ? static_cast<std::int32_t>(call(SYS_prctl, PR_MCE_KILL_GET, 0, 0, 0, 0)) : -1;
}

// What mlockall(2) has said of memory to come is told by nothing but such memory: locked pages can't be
// dropped, and are there from the start unless MCL_ONFAULT was given.
std::int32_t lock_future() {
    constexpr std::uint64_t page = 4096;
    constexpr long error_again = -11, error_invalid = -22;
    const long at = call(SYS_mmap, 0, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == error_again) return MCL_FUTURE;  // RLIMIT_MEMLOCK is used up
    if (at < 0 && at > -4096) return 0;
    std::uint8_t resident = 0;
    call(SYS_mincore, at, page, &resident);
    const bool locked = call(SYS_madvise, at, page, MADV_DONTNEED) == error_invalid;
    call(SYS_munmap, at, page);
    return !locked ? 0 : (resident & 1) != 0 ? MCL_FUTURE : MCL_FUTURE | MCL_ONFAULT;
}

// Since Linux 6.3 the kernel can be asked; before, who isn't registered for a command gets EPERM for it. It
// does no harm.
std::uint32_t membarrier_registrations() {
    constexpr long get_registrations = 1 << 9;
    if (const long known = call(SYS_membarrier, get_registrations, 0); known >= 0)
        return static_cast<std::uint32_t>(known);
    std::uint32_t registered = 0;
    for (const long command : {MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE,
                               MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ})
        if (call(SYS_membarrier, command, 0) == 0) registered |= static_cast<std::uint32_t>(command) << 1;
    return registered;
}

void collect_usage(AgentProcess& process) {
    struct {
        std::int64_t user_s, user_us, system_s, system_us, rest[14];
    } usage = {};  // struct rusage
    constexpr long children = -1;
    call(SYS_getrusage, children, &usage);
    process.cpu_ns = cpu_time(CLOCK_PROCESS_CPUTIME_ID);
    process.children_user_us = usage.user_s * 1'000'000 + usage.user_us;
    process.children_system_us = usage.system_s * 1'000'000 + usage.system_us;
}

// No call tells. What isn't allocated is an invalid argument, and else nothing is mapped where no program has
// anything (do_mprotect_pkey(), mm/mprotect.c).
std::uint32_t protection_keys() {
    constexpr std::uint64_t page = 4096, end_of_programs = (std::uint64_t{1} << 56) - page;
    constexpr long nothing_there = -12;
    std::uint32_t allocated = 0;
    for (std::uint32_t key = 1; key < protection_key_count; ++key)
        if (call(SYS_pkey_mprotect, end_of_programs, page, PROT_READ, key) == nothing_there)
            allocated |= 1U << key;
    return allocated;
}

void collect_process(AgentProcess& process, bool ask_keys) {
    process.keys = ask_keys ? keys_in(process_keyring) : 0;
    process.session_keyring = process.session_keys = 0;
    if (ask_keys) collect_session_keyring(process);
    for (long signal = 1; signal <= 64; ++signal)
        call(SYS_rt_sigaction, signal, nullptr, &process.actions[signal - 1], sizeof(std::uint64_t));
    for (long which = 0; which < 3; ++which) call(SYS_getitimer, which, &process.itimers[which]);
    for (std::uint32_t i = 0; i < process.timer_count; ++i) {
        auto& timer = process.timers[i];
        struct {
            timespec interval, value;
        } state = {};
        call(SYS_timer_gettime, timer.id, &state);
        timer.left_ns = state.value.tv_sec * 1'000'000'000 + state.value.tv_nsec;
        timer.interval_ns = state.interval.tv_sec * 1'000'000'000 + state.interval.tv_nsec;
        timer.overrun = static_cast<std::int32_t>(call(SYS_timer_getoverrun, timer.id));
    }
    call(SYS_prctl, PR_GET_CHILD_SUBREAPER, &process.subreaper);
    process.dumpable = static_cast<std::int32_t>(call(SYS_prctl, PR_GET_DUMPABLE));
    process.keep_caps = static_cast<std::int32_t>(call(SYS_prctl, PR_GET_KEEPCAPS));
    process.securebits = static_cast<std::int32_t>(call(SYS_prctl, PR_GET_SECUREBITS));
    process.thp_disable = static_cast<std::int32_t>(call(SYS_prctl, PR_GET_THP_DISABLE, 0, 0, 0, 0));
    process.state_permission = 0;
    process.deny_write_execute = 0;
    process.protection_keys = 0;
    if (ask_keys) {
        process.protection_keys = protection_keys();
        call(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &process.state_permission);
        process.deny_write_execute = static_cast<std::int32_t>(call(SYS_prctl, get_mdwe, 0, 0, 0, 0));
    }
    process.brk = static_cast<std::uint64_t>(call(SYS_brk, 0));
    process.lock_future = lock_future();
    process.membarrier = membarrier_registrations();
    collect_usage(process);
}

// The copy-on-write child. It shared the descriptor table with the program up to here, so that no descriptor
// was ever held twice; unsharing with close_range copies none of it. Then it only waits to be read and
// killed.
[[noreturn]] void snapshot_main(AgentThread* self) {
    call(SYS_close_range, 0U, ~0U, close_range_unshare);
    const auto* door = reinterpret_cast<const Door*>(self->door);
    for (std::uint32_t i = 0; i < door->detach_count && i < max_detached; ++i)
        call(SYS_munmap, door->detach[i].start, door->detach[i].length);
    call(SYS_prctl, PR_SET_NAME, snapshot_name);
    // The program's own leave to be traced isn't inherited, and the capture is nobody's ancestor here: yama's
    // ptrace_scope 1 would refuse it. EINVAL where there is no yama.
    if (self->tracer != 0) call(SYS_prctl, PR_SET_PTRACER, self->tracer, 0, 0, 0);
    call(SYS_setsid);  // a kill(-pgid) or a terminal's hang-up isn't meant for it
    Talk* talk = talk_of(self);
    talk->snapshot.store(static_cast<std::int32_t>(call(SYS_getpid)), std::memory_order_release);
    call(SYS_futex, &talk->snapshot, FUTEX_WAKE, 1);
    const auto* number = reinterpret_cast<const std::atomic<std::uint64_t>*>(self->header_capture);
    for (Patience patience(self); number->load(std::memory_order_acquire) == self->capture;)
        patience.sleep(self, nullptr, 0);
    call(SYS_exit_group, 0);
    __builtin_unreachable();
}

long fork_snapshot(AgentThread* self) {
    // exit signal 0: the program's own wait calls don't see it
    const long child = call(SYS_clone, CLONE_FILES, 0, 0, 0, 0);
    if (child == 0) snapshot_main(self);
    return child;
}

struct MiddleArgument {
    AgentThread* self;
    long result;
};

[[noreturn]] void middle_main(MiddleArgument* argument) {
    argument->result = fork_snapshot(argument->self);
    call(SYS_exit, 0);
    __builtin_unreachable();
}

// clone(CLONE_VM) needs a stack of its own for the child: x86-64 pushes nothing, the child starts at the next
// instruction with the new stack pointer.
long start_middle(MiddleArgument* argument, std::uint8_t* stack_top) {
    long result;
    register long r10 asm("r10") = 0;
    register long r8 asm("r8") = 0;
    asm volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "xor %%ebp, %%ebp\n\t"
        "mov %[arg], %%rdi\n\t"
        "call *%[entry]\n\t"
        "ud2\n"
        "1:"
        : "=a"(result)
        : "a"(SYS_clone), "D"(CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS), "S"(stack_top), "d"(0),
          "r"(r10), "r"(r8), [arg] "b"(argument), [entry] "r"(&middle_main)
        : "rcx", "r11", "memory");
    return result;
}

// A middle child makes the snapshot and is reaped at once: the snapshot is then nobody's child in the
// program's eyes. Subreapers in the group step back for that moment (agent_step_back): one that inherited it
// would see an ordinary child die. Where the group's pid 1 would inherit it, it is made a direct child.
long snapshot(AgentThread* self, Door* door) {
    if (door->argument != 0) return fork_snapshot(self);
    MiddleArgument argument = {self, 0};
    const long middle = start_middle(&argument, door->child_stack + sizeof door->child_stack);
    if (middle < 0) return middle;
    call(SYS_wait4, middle, nullptr, __WALL, nullptr);
    return argument.result;
}

// The status as wait(2) would give it, without taking it away; negative: an errno. Kernels hide it in /proc
// from other users' tools, and from all but root's for a child that wasn't dumpable; that a stop is still to
// be told they show since Linux 5.17 (do_task_stat(), fs/proc/array.c).
long peek_status(long child) {
    struct {
        std::int32_t signo, error, code, pad, pid, uid, status, rest[25];
    } info = {};  // siginfo_t
    constexpr int one_pid = 1;
    const long failed =
        call(SYS_waitid, one_pid, child, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL, nullptr);
    if (failed != 0) return failed;
    if (info.pid == 0) return no_such_process;
    constexpr int exited = 1, dumped = 3, stopped = 5;  // CLD_*
    if (info.code == exited) return (info.status & 0xff) << 8;
    if (info.code == stopped) return (info.status & 0xff) << 8 | 0x7f;
    return info.status | (info.code == dumped ? 0x80 : 0);
}

// Nothing waits here: the message is the first on its way, and fits.
long send_descriptors(long socket, const AgentLoan& loan) {
    struct {
        std::uint64_t length;
        std::int32_t level, type, numbers[max_lent];
    } control;  // cmsghdr and what follows it
    constexpr std::uint64_t head = offsetof(decltype(control), numbers);
    const std::uint32_t count = loan.count < max_lent ? loan.count : max_lent;
    control.length = head + count * sizeof control.numbers[0];
    control.level = SOL_SOCKET;
    control.type = SCM_RIGHTS;
    for (std::uint32_t i = 0; i < count; ++i) control.numbers[i] = loan.numbers[i];
    char byte = 0;
    iovec data = {&byte, 1};
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = control.length;
    return call(SYS_sendmsg, socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// All threads stand still: nobody in the process sees the socket's number.
long lend(const AgentLoan& loan) {
    const long socket = call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return socket;
    long done = call(SYS_connect, socket, loan.address, loan.address_length);
    if (done == 0) done = send_descriptors(socket, loan);
    call(SYS_close, socket);
    return done;
}

// In one go, so that the notification is there again whatever becomes of the capture. Whoever isn't the one
// to be notified hears nothing by the sockets, and nothing has changed.
long renew(AgentRenewal& wanted) {
    constexpr long no_data = -61, by_thread = 2;  // ENODATA, SIGEV_THREAD
    const long gone = call(SYS_mq_notify, wanted.queue, nullptr);
    if (gone < 0) return gone;
    for (std::uint32_t i = 0; i < wanted.count && i < max_lent; ++i) {
        if (call(SYS_recvfrom, wanted.sockets[i], wanted.notice, notice_size, MSG_DONTWAIT, nullptr,
                 nullptr) != static_cast<long>(notice_size))
            continue;
        wanted.socket = wanted.sockets[i];
        const struct {
            std::uint64_t value;
            std::int32_t signal, notify, pad[12];
        } event = {reinterpret_cast<std::uint64_t>(wanted.notice), wanted.socket, by_thread, {}};
        return call(SYS_mq_notify, wanted.queue, &event);
    }
    return no_data;
}

long obey(AgentThread* self, Door* door, std::uint32_t command) {
    switch (command) {
        case agent_collect:
            collect_process(door->process, self->ask_keys != 0);
            collect_landlock(self, static_cast<AskLandlock>(door->argument));
            return 0;
        case agent_map:
            // At once, not by a fault for each thread: the capture writes into all of it.
            return call(SYS_mmap, 0, door->argument, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        case agent_unmap:
            return call(SYS_munmap, door->argument, door->argument2);
        case agent_snapshot:
            return snapshot(self, door);
        case agent_reap:
            return call(SYS_wait4, door->argument, nullptr, __WALL, nullptr);
        case agent_step_back:
            return call(SYS_prctl, PR_SET_CHILD_SUBREAPER, door->argument == 0, 0, 0, 0);
        case agent_peek:
            return peek_status(static_cast<long>(door->argument));
        case agent_resident:
            return call(SYS_mincore, door->argument, door->argument2, door->resident);
        case agent_complete:
            return call(SYS_io_uring_enter, door->argument, 0, 0, IORING_ENTER_GETEVENTS, nullptr, 0);
        case agent_lend:
            return lend(*reinterpret_cast<const AgentLoan*>(door->resident));
        case agent_let_go:
            return door->argument < max_tracees ? tracing::let_go(door->tracees[door->argument]) : -22;
        case agent_renew:
            return renew(*reinterpret_cast<AgentRenewal*>(door->resident));
        case agent_watch: {
            constexpr long user_mode_only = 1;  // UFFD_USER_MODE_ONLY, Linux 5.11: needs no privilege
            return call(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only);
        }
        case agent_close:
            return call(SYS_close, door->argument);
        case agent_take:
            return tracing::take_all(door, static_cast<std::uint32_t>(door->argument));
        default:
            return -22;
    }
}

void serve(AgentThread* self) {
    Talk* talk = talk_of(self);
    auto* door = reinterpret_cast<Door*>(self->door);
    std::uint32_t seen = 0;
    bool stepped_back = false;
    long made = -1;  // a descriptor that the program must not find
    Patience patience(self);
    while (capture_lives(self)) {
        const std::uint32_t command = talk->command.load(std::memory_order_acquire);
        if (command == seen) {
            patience.sleep(self, &talk->command, seen);
            continue;
        }
        seen = command;
        patience = Patience(self);
        if ((command & 0xff) == agent_step_back) stepped_back = door->argument != 0;
        const long result = obey(self, door, command & 0xff);
        if ((command & 0xff) == agent_watch) made = result;
        if ((command & 0xff) == agent_close) made = -1;
        talk->result.store(result, std::memory_order_relaxed);
        talk->reply.store(command, std::memory_order_release);
        call(SYS_futex, &talk->reply, FUTEX_WAKE, 1);
    }
    if (made >= 0) call(SYS_close, made);
    if (stepped_back) call(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    tracing::take_all(door, max_tracees);  // those that the capture had let go of, and has left so
}

}  // namespace

// Puts mask, dispatch of system calls (after which none can be made here) and registers back. The copy lies
// below the red zone of the program's own stack, as a signal's frame would, because the program's signals may
// arrive as soon as the mask is back. iretq loads rip, flags and rsp at once.
extern "C" [[noreturn]] void cairn_agent_leave(const AgentFrame* frame, const AgentDispatch* dispatch);
asm(R"(
    .pushsection .text
    .hidden cairn_agent_leave
    .type cairn_agent_leave, @function
cairn_agent_leave:
    mov %rdi, %rbx
    mov %rsi, %r12
    mov 120(%rbx), %rsp
    sub $256, %rsp
    and $-16, %rsp
    mov %ss, %eax
    push %rax
    push 120(%rbx)
    push 136(%rbx)
    mov %cs, %eax
    push %rax
    push 128(%rbx)
    .irp offset, 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112
    push \offset(%rbx)
    .endr
    push 144(%rbx)
    mov $2, %edi
    mov %rsp, %rsi
    xor %edx, %edx
    mov $8, %r10d
    mov $14, %eax
    syscall
    cmpq $0, 0(%r12)
    je 1f
    mov $59, %edi
    mov $1, %esi
    mov 8(%r12), %rdx
    mov 16(%r12), %r10
    mov 24(%r12), %r8
    mov $157, %eax
    syscall
1:
    add $8, %rsp
.Lcairn_pop:
    .irp register, r15, r14, r13, r12, r11, r10, r9, r8, rbp, rdi, rsi, rdx, rcx, rbx, rax
    pop %\register
    .endr
    iretq
    .size cairn_agent_leave, . - cairn_agent_leave

    .hidden cairn_agent_finish
    .type cairn_agent_finish, @function
cairn_agent_finish:
    mov %rdi, %rbx
    mov 152(%rbx), %rax
    mov 160(%rbx), %rdi
    mov 168(%rbx), %rsi
    mov 176(%rbx), %rdx
    mov 184(%rbx), %r10
    mov 192(%rbx), %r8
    mov 200(%rbx), %r9
    syscall
    xor %ecx, %ecx
    test %rax, %rax
    cmovs %rcx, %rax
    add 208(%rbx), %rax
    mov %rax, 0(%rbx)
    mov %ss, %eax
    push %rax
    push 120(%rbx)
    push 136(%rbx)
    mov %cs, %eax
    push %rax
    push 128(%rbx)
    .irp offset, 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112
    push \offset(%rbx)
    .endr
    jmp .Lcairn_pop
    .size cairn_agent_finish, . - cairn_agent_finish
    .popsection
)");
// The numbers that the assembler above has.
static_assert(offsetof(AgentFrame, rax) == 0);
static_assert(offsetof(AgentFrame, rbx) == 8);
static_assert(offsetof(AgentFrame, rcx) == 16);
static_assert(offsetof(AgentFrame, rdx) == 24);
static_assert(offsetof(AgentFrame, rsi) == 32);
static_assert(offsetof(AgentFrame, rdi) == 40);
static_assert(offsetof(AgentFrame, rbp) == 48);
static_assert(offsetof(AgentFrame, r8) == 56);
static_assert(offsetof(AgentFrame, r9) == 64);
static_assert(offsetof(AgentFrame, r10) == 72);
static_assert(offsetof(AgentFrame, r11) == 80);
static_assert(offsetof(AgentFrame, r12) == 88);
static_assert(offsetof(AgentFrame, r13) == 96);
static_assert(offsetof(AgentFrame, r14) == 104);
static_assert(offsetof(AgentFrame, r15) == 112);
static_assert(offsetof(AgentFrame, rsp) == 120);
static_assert(offsetof(AgentFrame, rip) == 128);
static_assert(offsetof(AgentFrame, eflags) == 136);
static_assert(offsetof(AgentFrame, mask) == 144);
static_assert(offsetof(AgentDispatch, start) == 8 && offsetof(AgentDispatch, selector) == 24);
static_assert(PR_SET_SYSCALL_USER_DISPATCH == 59 && PR_SYS_DISPATCH_ON == 1 && SYS_prctl == 157);
static_assert(offsetof(FinishFrame, frame) == 0 && offsetof(FinishFrame, call) == 152);
static_assert(offsetof(FinishFrame, arguments) == 160 && offsetof(FinishFrame, done) == 208);

// Where a thread goes on whose transfer was cut short: rdi = its FinishFrame, which lies above rsp.
extern "C" void cairn_agent_finish();

// Where a capture points a stopped thread: rdi = its AgentThread, rsp = the end of the stack behind it.
extern "C" [[gnu::visibility("hidden"), noreturn]] void cairn_agent_entry(AgentThread* self) {
    call(SYS_rt_sigprocmask, 2, &all_signals, nullptr, sizeof all_signals);
    collect_thread(self);
    if (self->leader == 0) collect_landlock(self, self->ask_landlock);
    __atomic_store_n(&self->done, 1U, __ATOMIC_RELEASE);
    if (self->leader != 0) {
        serve(self);
        waiting::wake_siblings(self);
    }
    for (Patience patience(self); capture_lives(self);) patience.sleep(self, nullptr, 0);
    // Its tracer sees as well that the capture has gone, and fetches it from here.
    while (self->traced_by != 0 && call(SYS_kill, self->traced_by, 0) != no_such_process) {
        const timespec slice = {0, 20'000'000};
        call(SYS_rt_sigtimedwait, &no_signal, nullptr, &slice, sizeof no_signal);
    }
    cairn_agent_leave(&self->frame, &self->dispatch);
}

extern "C" void cairn_agent_park();
asm(R"(
    .pushsection .text
    .hidden cairn_agent_park
    .type cairn_agent_park, @function
cairn_agent_park:
    lea .Lcairn_no_signal(%rip), %rdi
    xor %esi, %esi
    xor %edx, %edx
    mov $8, %r10d
    mov $128, %eax
    syscall
    jmp cairn_agent_park
    .balign 8
.Lcairn_no_signal:
    .quad 0
    .size cairn_agent_park, . - cairn_agent_park
    .popsection
)");
static_assert(SYS_rt_sigtimedwait == 128);

// Where a restart points the tracer's thread, all signals blocked.
extern "C" [[gnu::visibility("hidden"), noreturn]] void cairn_agent_take(Door* door) {
    tracing::take_all(door, door->tracee_count);
    __atomic_store_n(&door->taken, 1U, __ATOMIC_RELEASE);
    for (;;) call(SYS_rt_sigtimedwait, &no_signal, nullptr, nullptr, sizeof no_signal);
}

extern "C" [[gnu::visibility("hidden")]] Door cairn_door;
Door cairn_door;

// Where the Door and the agent's entries are, for who has only the file: relative to the first of these words
// (capture/own_library.cpp). A capture that places the library into a program which doesn't load it has no
// loader that would relocate it: nothing that the agent runs may need that.
asm(R"(
    .pushsection .note.cairn, "a", @note
    .balign 4
    .long 6, 40, 1
    .asciz "CAIRN"
    .balign 4
1:  .quad cairn_door - 1b, cairn_agent_entry - 1b, cairn_agent_finish - 1b, cairn_agent_park - 1b, cairn_agent_take - 1b
    .popsection
)");

// Called by the library's constructor when everything else is in place.
extern "C" [[gnu::visibility("hidden")]] void cairn_door_open() {
    cairn_door.version = agent_version;
    cairn_door.size = sizeof(Door);
    cairn_door.entry = reinterpret_cast<std::uint64_t>(&cairn_agent_entry);
    cairn_door.finish = reinterpret_cast<std::uint64_t>(&cairn_agent_finish);
    cairn_door.environment = reinterpret_cast<std::uint64_t>(&environ);
    cairn_door.park = reinterpret_cast<std::uint64_t>(&cairn_agent_park);
    cairn_door.take = reinterpret_cast<std::uint64_t>(&cairn_agent_take);
    __atomic_store_n(&cairn_door.magic, door_magic, __ATOMIC_RELEASE);
}

}  // namespace cairn
