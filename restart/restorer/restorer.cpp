// The restorer: code without a home. The restart tool places it into a process that has just execed, at an
// address that is free in the image; it replaces everything else by what the image says. No libc, no data of
// its own, no return: each entry ends in a breakpoint, which the tool, its tracer, waits for. If the tool
// dies the kernel kills us.
#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include <cstddef>

#include "common/agent.h"
#include "common/cpu_clock.h"
#include "common/sched_attributes.h"
#include "restart/restorer/blob.h"
#include "restart/restorer/pending.h"

// The compiler calls these by name; there is no libc.
extern "C" {
[[gnu::visibility("hidden")]] void* memcpy(void* to, const void* from, std::size_t size) {
    void* begin = to;
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
    return begin;
}
[[gnu::visibility("hidden")]] void* memset(void* to, int value, std::size_t size) {
    void* begin = to;
    asm volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(value) : "memory");
    return begin;
}
}

namespace cairn::restart::restorer {

constexpr std::uint64_t thread_flags =
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

namespace {

constexpr long no_such_call = -38;

// The thread of `args` by clone(2).
long start_by_clone(const clone_args& args, Entry entry, void* argument) {
    long result;
    register std::uint64_t child_tid asm("r10") = args.child_tid;
    register std::uint64_t tls asm("r8") = 0;
    register Entry called asm("r9") = entry;  // none that is used for the call, and not rbp
    asm volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "xor %%ebp, %%ebp\n\t"
        "mov %[arg], %%rdi\n\t"
        "call *%[called]\n\t"
        "int3\n"
        "1:"
        : "=a"(result)
        : "a"(SYS_clone), "D"(args.flags), "S"(args.stack + args.stack_size), "d"(args.parent_tid),
          "r"(child_tid), "r"(tls), [arg] "b"(argument), [called] "r"(called)
        : "rcx", "r11", "memory");
    return result;
}

}  // namespace

long start_thread(std::uint64_t stack, std::uint64_t stack_size, std::int32_t tid, Entry entry,
                  void* argument, std::uint32_t* alive) {
    clone_args args = {};
    args.flags = thread_flags;
    args.stack = stack;
    args.stack_size = stack_size;
    if (alive != nullptr) {
        args.flags |= CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
        args.parent_tid = args.child_tid = reinterpret_cast<std::uint64_t>(alive);
    }
    if (tid != 0) {
        args.set_tid = reinterpret_cast<std::uint64_t>(&tid);
        args.set_tid_size = 1;
    }
    long result;
    asm volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "xor %%ebp, %%ebp\n\t"
        "mov %[arg], %%rdi\n\t"
        "call *%[entry]\n\t"
        "int3\n"
        "1:"
        : "=a"(result)
        : "a"(SYS_clone3), "D"(&args), "S"(sizeof args), [arg] "b"(argument), [entry] "d"(entry)
        : "rcx", "r11", "r8", "r10", "memory");
    // Container runtimes hide clone3 from containers without CAP_SYS_ADMIN, since a filter can't look into
    // its arguments; where no id is asked for the old call does the same.
    if (result == no_such_call && tid == 0) return start_by_clone(args, entry, argument);
    return result;
}

namespace {

// The robust mutexes that a thread holds say who holds them by the tid that it had in the kernel; when it
// dies the kernel looks for the tid that it has now. Read and written by calls that fail on a bad address:
// the list is the program's, the kernel doesn't trust it either (kernel/futex, exit_robust_list).
//
// What is on it need not be a mutex: a program may set a copy of its list's head (stress-ng does), and the
// words before glibc's own head are pointers. So a word has to say the tid of the checkpoint, or, where a
// thread slept in lock over an earlier restart and wrote the tid from before, look like a robust mutex all
// through.
void rename_robust_owner(const Thread& thread) {
    constexpr std::uint32_t tid_bits = 0x3fffffff, limit = 2048;  // FUTEX_TID_MASK, ROBUST_LIST_LIMIT
    constexpr std::uint32_t last_tid = 1 << 22, robust_kind = 16, kinds = 512;  // PID_MAX_LIMIT; pthread.h
    const auto self = call(SYS_getpid);
    const auto copy = [&](long direction, std::uint64_t at, void* data, std::uint64_t size) {
        const std::uint64_t here[2] = {reinterpret_cast<std::uint64_t>(data), size}, there[2] = {at, size};
        return call(direction, self, here, 1, there, 1, 0) == static_cast<long>(size);
    };
    struct {
        std::uint64_t next;
        std::int64_t offset;
        std::uint64_t pending;
    } head = {};
    if (!copy(SYS_process_vm_readv, thread.robust_list, &head, sizeof head)) return;
    std::uint64_t entry = head.next & ~1ULL;  // bit 0: priority inheriting
    for (std::uint32_t n = 0; n < limit && entry != thread.robust_list; ++n) {
        std::uint32_t mutex[5] = {};  // glibc's pthread_mutex_t: lock, count, owner, users, kind
        const std::uint64_t at = entry + static_cast<std::uint64_t>(head.offset);
        std::uint64_t next = 0;
        if (!copy(SYS_process_vm_readv, entry, &next, sizeof next) ||
            !copy(SYS_process_vm_readv, at, mutex, sizeof mutex))
            return;
        const std::uint32_t was = mutex[0] & tid_bits;
        const bool robust =
            mutex[2] == was && was <= last_tid && (mutex[4] & robust_kind) != 0 && mutex[4] < kinds;
        if (was != 0 && (was == static_cast<std::uint32_t>(thread.old_tid) || robust)) {
            if (mutex[2] == was) mutex[2] = static_cast<std::uint32_t>(thread.real_tid);
            mutex[0] = (mutex[0] & ~tid_bits) | static_cast<std::uint32_t>(thread.real_tid);
            copy(SYS_process_vm_writev, at, mutex, 3 * sizeof mutex[0]);
        }
        entry = next & ~1ULL;
    }
}

// The kernel makes room for a thread's tiles when it first uses one, and PTRACE_SETREGSET takes none before
// (xfd_enable_feature() and validate_user_xstate_header(), arch/x86/kernel/fpu/xstate.c).
void use_a_tile() {
    struct alignas(64) {
        std::uint8_t palette, start_row, reserved[14];
        std::uint16_t columns[16];
        std::uint8_t rows[16];
    } shape = {1, 0, {}, {64}, {1}};
    asm volatile("ldtilecfg %0\n\ttilezero %%tmm0\n\ttilerelease" : : "m"(shape));
}

// What every thread does for itself.
void set_up_thread(Params* params, Thread& thread) {
    if (thread.uses_tiles != 0) use_a_tile();
    thread.real_tid = static_cast<std::int32_t>(call(SYS_set_tid_address, thread.clear_child_tid));
    if (thread.robust_list != 0) {
        call(SYS_set_robust_list, thread.robust_list, thread.robust_list_size);
        rename_robust_owner(thread);
    }
    if (thread.rseq != 0) {
        constexpr std::uint32_t first_size = 32;
        constexpr long error_invalid = -22;
        long result = call(SYS_rseq, thread.rseq, thread.rseq_size, 0, thread.rseq_signature);
        // Before Linux 6.3 an area has this size and no other. What a newer kernel has written behind stays
        // as it is.
        if (result == error_invalid && thread.rseq_size > first_size)
            result = call(SYS_rseq, thread.rseq, first_size, 0, thread.rseq_signature);
        must(params, step_rseq, result, thread.rseq);
    }
    struct {
        std::uint64_t base;
        std::int32_t flags, pad;
        std::uint64_t size;
    } stack = {thread.altstack_base, thread.altstack_flags & ~1, 0,
               thread.altstack_size};  // SS_ONSTACK isn't settable
    must(params, step_altstack, call(SYS_sigaltstack, &stack, nullptr), thread.altstack_base);
    call(SYS_prctl, PR_SET_NAME, thread.name, 0, 0, 0);
    if (thread.affinity_size != 0) call(SYS_sched_setaffinity, 0, thread.affinity_size, thread.affinity);
    if (thread.set_scheduling != 0) {
        SchedAttributes attributes = {sizeof attributes,     thread.sched_policy,   thread.sched_flags,
                                      thread.nice,           thread.sched_priority, thread.sched_runtime,
                                      thread.sched_deadline, thread.sched_period};
        must(params, step_scheduling, call(SYS_sched_setattr, 0, &attributes, 0),
             static_cast<std::uint64_t>(thread.image_tid));
        must(params, step_scheduling, call(SYS_ioprio_set, 1, 0, thread.ioprio),
             static_cast<std::uint64_t>(thread.image_tid));
    }
    set_credentials(params, thread);
    call(SYS_prctl, PR_SET_TIMERSLACK, thread.timerslack, 0, 0, 0);
    if (thread.memory_errors != PR_MCE_KILL_DEFAULT)
        call(SYS_prctl, PR_MCE_KILL, PR_MCE_KILL_SET, thread.memory_errors, 0, 0);
    // A machine with other nodes keeps the default: it is about speed.
    if (thread.memory_policy != 0)
        call(SYS_set_mempolicy, thread.memory_policy, thread.memory_nodes, thread.node_count);
    // cleared by every change of credentials, so it comes last
    if (thread.death_signal != 0) call(SYS_prctl, PR_SET_PDEATHSIG, thread.death_signal, 0, 0, 0);
    if (params->credentials.no_new_privs != 0 || thread.no_new_privs != 0)
        call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // Nothing that asks a clock by the vdso comes after this; here everything is called.
    if (thread.no_time_stamps != 0)
        must(params, step_time_stamps, call(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0),
             static_cast<std::uint64_t>(thread.image_tid));
    if (thread.no_cpuid != 0)
        must(params, step_cpuid, call(SYS_arch_prctl, ARCH_SET_CPUID, 0),
             static_cast<std::uint64_t>(thread.image_tid));
    // Where it fails the processor isn't concerned, or the whole machine is set one way or the other.
    if (thread.store_bypass != 0)
        call(SYS_prctl, PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, thread.store_bypass, 0, 0);
    if (thread.indirect_branch != 0)
        call(SYS_prctl, PR_SET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, thread.indirect_branch, 0, 0);
}

std::int64_t used_ns(clockid_t clock) {
    timespec used = {};
    call(SYS_clock_gettime, clock, &used);
    return used.tv_sec * 1'000'000'000 + used.tv_nsec;
}

// The thread and the process are new ones for the kernel: what the image's had used of a processor is added
// by the library, from here on. Whatever was spent on rebuilding isn't the program's.
void go_on_clock(const Params* params, const Thread& thread) {
    const std::int64_t offset = at<Door>(params->door)->cpu_tls;
    if (params->has_notes == 0 || offset == 0 || thread.thread_pointer == 0) return;
    *at<std::int64_t>(thread.thread_pointer + static_cast<std::uint64_t>(offset)) =
        thread.cpu_ns - used_ns(CLOCK_THREAD_CPUTIME_ID);
}

void go_on_clock(const Params* params) {
    struct rusage used = {};
    call(SYS_getrusage, RUSAGE_SELF, &used);
    const auto us = [](const timeval& time) { return time.tv_sec * 1'000'000 + time.tv_usec; };
    at<Door>(params->door)->cpu = {params->cpu_ns - used_ns(CLOCK_PROCESS_CPUTIME_ID),
                                   params->cpu_user_us - us(used.ru_utime),
                                   params->cpu_system_us - us(used.ru_stime), params->cpu_children_user_us,
                                   params->cpu_children_system_us};
}

struct ThreadArgument {
    Params* params;
    Thread* thread;
};

// While the descriptors of the restart are open, and it may do so.
void go_to_own_folders(Params* params, Thread& thread) {
    if (thread.own_folders == 0) return;
    must(params, step_root, call(SYS_unshare, CLONE_FS), 2);
    call(SYS_umask, thread.umask);
    if (thread.root_fd >= 0) {
        must(params, step_root, call(SYS_fchdir, thread.root_fd), 3);
        must(params, step_root, call(SYS_chroot, "."), 3);
    }
    if (thread.cwd_fd >= 0) must(params, step_root, call(SYS_fchdir, thread.cwd_fd), 4);
    __atomic_store_n(&thread.stands, 1, __ATOMIC_RELEASE);
    call(SYS_futex, &thread.stands, FUTEX_WAKE, 1, nullptr);
}

[[noreturn]] void thread_main(ThreadArgument* argument) {
    Params* params = argument->params;
    Thread* thread = argument->thread;
    go_to_own_folders(params, *thread);
    set_up_thread(params, *thread);
    queue_own(params, *thread);
    go_on_clock(params, *thread);
    trap();
}

void start_threads(Params* params) {
    auto* threads = at<Thread>(params->threads);
    for (std::uint64_t i = 1; i < params->thread_count; ++i) {
        auto& thread = threads[i];
        // the argument lies at the lower end of the thread's own stack
        auto* argument = reinterpret_cast<ThreadArgument*>(thread.stack);
        *argument = {params, &thread};
        long result = -17;
        // EEXIST: a helper of another process that is being rebuilt has the id for a moment
        for (int tries = 0; result == -17 && tries < 1000; ++tries) {
            result = start_thread(reinterpret_cast<std::uint64_t>(thread.stack), sizeof thread.stack,
                                  thread.tid, reinterpret_cast<Entry>(&thread_main), argument, nullptr);
            if (result != -17) break;
            const timespec slice = {0, 1'000'000};
            call(SYS_nanosleep, &slice, nullptr);
        }
        must(params, step_thread, result, static_cast<std::uint64_t>(thread.tid));
        thread.real_tid = static_cast<std::int32_t>(result);
        // If it can't get there it has said so, and stays where it is.
        while (thread.own_folders != 0 && __atomic_load_n(&thread.stands, __ATOMIC_ACQUIRE) == 0)
            call(SYS_futex, &thread.stands, FUTEX_WAIT, 0, nullptr);
    }
}

void set_process(Params* params) {
    for (long signal = 1; signal <= 64; ++signal) {
        if (signal == 9 || signal == 19) continue;  // SIGKILL, SIGSTOP
        must(params, step_signals,
             call(SYS_rt_sigaction, signal, &params->actions[signal - 1], nullptr, sizeof(std::uint64_t)),
             static_cast<std::uint64_t>(signal));
    }
    must(params, step_layout,
         call(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, params->layout, params->layout_size, 0), 0);
    call(SYS_umask, params->umask);
    // As the library does in a new process (hijack/resident.cpp), for the next checkpoint: yama.
    call(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (params->subreaper != 0) call(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    call(SYS_personality, params->personality);
    for (std::uint32_t bit = 1; bit != 0; bit <<= 1)
        if ((params->membarrier & bit) != 0) call(SYS_membarrier, bit, 0);
    if (params->lock_future != 0) must(params, step_lock_memory, call(SYS_mlockall, params->lock_future), 0);
    enter_namespaces(params);
    if (params->root_fd >= 0) {
        must(params, step_root, call(SYS_fchdir, params->root_fd), 0);
        must(params, step_root, call(SYS_chroot, "."), 0);
    }
    if (params->root_of_the_dead != 0) take_root_of_the_dead(params);
    if (params->cwd_fd >= 0) must(params, step_root, call(SYS_fchdir, params->cwd_fd), 1);
    // Both paths are of the mount namespace, not of the root folder in it.
    if (params->own_cwd != 0) must(params, step_root, call(SYS_chdir, params->own_cwd), 6);
    if (params->own_root != 0) must(params, step_root, call(SYS_chroot, params->own_root), 5);
}

// An heir comes with its parent's descriptors, which aren't its own: those are in a process that stands in
// for it, at the numbers that they are to have.
void fetch_held(Params* params) {
    if (params->stand_in == 0) return;
    must(params, step_descriptors, call(SYS_close_range, 0, ~0U, 0), 0);
    const auto put = [&](long from, std::int32_t to) {
        must(params, step_descriptors, from, static_cast<std::uint64_t>(to));
        if (from != to) {
            must(params, step_descriptors, call(SYS_dup2, from, to), static_cast<std::uint64_t>(to));
            call(SYS_close, from);
        } else {
            call(SYS_fcntl, to, F_SETFD, 0);
        }
    };
    put(call(SYS_pidfd_open, params->stand_in, 0), params->stand_in_seat);
    const auto* held = at<Held>(params->held);
    for (std::uint64_t i = 0; i < params->held_count; ++i)
        put(call(SYS_pidfd_getfd, params->stand_in_seat, held[i], 0), held[i]);
    call(SYS_close, params->stand_in_seat);
}

// Each comes to life in a copy of this memory, and traps: the tool then gives it parameters of its own.
void bear_heirs(Params* params) {
    constexpr long error_exists = -17;
    const auto* births = at<std::int32_t>(params->births);
    for (std::uint32_t i = 0; i < params->birth_count; ++i) {
        params->born = i + 1;
        clone_args args = {};
        args.exit_signal = 17;  // SIGCHLD
        args.set_tid = reinterpret_cast<std::uint64_t>(&births[i]);
        args.set_tid_size = births[i] != 0 ? 1 : 0;
        if (births[i] == 0) args.set_tid = 0;
        long result = error_exists;
        // A helper of another process that is being rebuilt has the id for a moment.
        for (int tries = 0; result == error_exists && tries < 1000; ++tries) {
            result = call(SYS_clone3, &args, sizeof args);
            if (result == no_such_call && births[i] == 0)
                result = call(SYS_clone, args.exit_signal, 0, 0, 0, 0);
            if (result == 0) trap();
            if (result != error_exists) break;
            const timespec slice = {0, 1'000'000};
            call(SYS_nanosleep, &slice, nullptr);
        }
        must(params, step_birth, result, static_cast<std::uint64_t>(births[i]));
    }
    params->born = 0;
}

// What was kept for it while its memory came. Before it becomes who it was: then it couldn't take anything
// from a keeper any more. Where all numbers but two are taken, the pidfd has one and what is fetched comes to
// the other, so the last may be a duplicate only (resources/schema/descriptor_room.h).
void place_postponed(Params* params) {
    if (params->last_own < 0) return;
    must(params, step_descriptors, call(SYS_close_range, params->first_own, params->last_own, 0),
         static_cast<std::uint64_t>(params->first_own));
    const auto* all = at<Postponed>(params->postponed);
    const auto move = [&](long from, std::int32_t to) {
        must(params, step_descriptors, from, static_cast<std::uint64_t>(to));
        if (from == to) {
            call(SYS_fcntl, to, F_SETFD, 0);
            return;
        }
        must(params, step_descriptors, call(SYS_dup2, from, to), static_cast<std::uint64_t>(to));
        call(SYS_close, from);
    };
    std::int32_t keeper = 0;
    bool seated = false;
    for (std::uint64_t i = 0; i < params->postponed_count; ++i) {
        const auto& each = all[i];
        const auto fd = static_cast<std::uint64_t>(each.fd);
        if (each.twin >= 0) {
            if (each.fd == params->seat) seated = false;
            must(params, step_descriptors, call(SYS_dup2, each.twin, each.fd), fd);
            continue;
        }
        if (each.keeper != keeper) {
            if (seated) call(SYS_close, params->seat);
            move(call(SYS_pidfd_open, each.keeper, 0), params->seat);
            keeper = each.keeper;
            seated = true;
        }
        move(call(SYS_pidfd_getfd, params->seat, each.number, 0), each.fd);
    }
    if (seated) call(SYS_close, params->seat);
}

void set_descriptors(Params* params) {
    must(params, step_descriptors, call(SYS_close_range, params->close_from, ~0U, 0), params->close_from);
    const auto* fds = at<std::int32_t>(params->cloexec);
    for (std::uint32_t i = 0; i < params->cloexec_count; ++i)
        must(params, step_descriptors, call(SYS_fcntl, fds[i], F_SETFD, FD_CLOEXEC),
             static_cast<std::uint64_t>(fds[i]));
}

// Closing any descriptor of a file drops the process's POSIX locks on it, so nothing is closed from here on.
// A lease tells of itself by the number of the descriptor that it was taken with.
void take_locks(Params* params) {
    const auto* locks = at<Lock>(params->locks);
    for (std::uint64_t i = 0; i < params->lock_count; ++i) {
        const auto& lock = locks[i];
        const auto fd = static_cast<std::uint64_t>(lock.fd);
        struct flock region = {};
        region.l_type = static_cast<short>(lock.type);
        region.l_start = lock.start;
        region.l_len = lock.length;
        if (lock.lease != 0)
            must(params, step_locks, call(SYS_fcntl, lock.fd, F_SETLEASE, lock.type), fd);
        else
            must(params, step_locks, call(SYS_fcntl, lock.fd, F_SETLK, &region), fd);
    }
}

// semop(2) does all of a call's operations or none, and without waiting for anybody in between: up, then
// down, or the other way round where there is no room above.
void promise_undo(Params* params) {
    constexpr long error_range = -34;
    auto* undo = at<Undo>(params->undo);
    for (std::uint64_t i = 0; i < params->undo_count; ++i) {
        auto& operations = undo[i].operations;
        long result = call(SYS_semop, undo[i].semaphores, operations, 2);
        if (result == error_range) {
            const auto first = operations[0];
            operations[0] = operations[1];
            operations[1] = first;
            result = call(SYS_semop, undo[i].semaphores, operations, 2);
        }
        must(params, step_undo, result, static_cast<std::uint64_t>(undo[i].semaphores));
    }
}

void ask_for_notifications(Params* params) {
    const auto* all = at<Notify>(params->notifications);
    for (std::uint64_t i = 0; i < params->notification_count; ++i) {
        const struct {
            std::uint64_t value;
            std::int32_t signal, notify, pad[12];
        } event = {all[i].value, all[i].signal, all[i].notify, {}};
        must(params, step_notify, call(SYS_mq_notify, all[i].fd, &event),
             static_cast<std::uint64_t>(all[i].fd));
    }
}

void register_buffers(Params* params) {
    constexpr long register_buffers = 0;  // IORING_REGISTER_BUFFERS
    const auto* all = at<RingBuffers>(params->ring_buffers);
    for (std::uint64_t i = 0; i < params->ring_buffers_count; ++i)
        must(params, step_ring_buffers,
             call(SYS_io_uring_register, all[i].fd, register_buffers, all[i].vectors, all[i].count),
             static_cast<std::uint64_t>(all[i].fd));
}

// 0: it is no thread of ours.
KernelId kernel_tid(const Params* params, ProgramId tid) {
    const auto* threads = at<Thread>(params->threads);
    for (std::uint64_t i = 0; i < params->thread_count; ++i)
        if (threads[i].image_tid == tid.number()) return KernelId(threads[i].real_tid);
    return {};
}

// Ids are given in ascending order from 0 (or from what prctl PR_TIMER_CREATE_RESTORE_IDS of newer kernels is
// told), so those in between are made and deleted again.
void create_timers(Params* params) {
    const auto* timers = at<Timer>(params->timers);
    for (std::uint64_t i = 0; i < params->timer_count; ++i) {
        const auto& timer = timers[i];
        struct {
            std::uint64_t value;
            std::int32_t signal, notify, tid, pad[11];
        } event = {
            timer.value, timer.signal, timer.notify, kernel_tid(params, ProgramId(timer.tid)).number(), {}};
        const std::int32_t clock =
            timer.own_clock != 0
                ? clock_of_task(timer.clock, kernel_tid(params, task_of<ProgramId>(timer.clock)))
                : timer.clock;
        for (;;) {
            std::int32_t id = -1;
            must(params, step_timers, call(SYS_timer_create, clock, &event, &id),
                 static_cast<std::uint64_t>(timer.id));
            if (id == timer.id) break;
            call(SYS_timer_delete, id);
            if (id > timer.id) give_up(params, step_timers, -17, static_cast<std::uint64_t>(timer.id));
        }
    }
}

void arm_timers(Params* params) {
    const auto* timers = at<Timer>(params->timers);
    for (std::uint64_t i = 0; i < params->timer_count; ++i) {
        const auto& timer = timers[i];
        const timespec value[2] = {{timer.interval_ns / 1'000'000'000, timer.interval_ns % 1'000'000'000},
                                   {timer.left_ns / 1'000'000'000, timer.left_ns % 1'000'000'000}};
        must(params, step_timers, call(SYS_timer_settime, timer.id, 0, value, nullptr),
             static_cast<std::uint64_t>(timer.id));
    }
    for (long which = 0; which < 3; ++which)
        must(params, step_timers, call(SYS_setitimer, which, &params->itimers[which], nullptr),
             static_cast<std::uint64_t>(which));
}

}  // namespace

extern "C" [[gnu::visibility("hidden"), noreturn]] void restorer_rebuild(Params* params) {
    call(SYS_rt_sigprocmask, 2, &all_signals, nullptr, sizeof all_signals);
    drop_pending();  // what the making of the forest left behind: SIGCHLDs of zombies and middle processes
    fetch_held(params);
    if (params->own_group != 0) must(params, step_birth, call(SYS_setpgid, 0, 0), 0);
    restore_memory(params);
    bear_heirs(params);
    set_process(params);
    start_threads(params);
    place_postponed(params);
    set_up_thread(params, *at<Thread>(params->threads));
    create_timers(params);
    set_descriptors(params);
    take_locks(params);
    promise_undo(params);
    ask_for_notifications(params);
    register_buffers(params);
    trap();
}

extern "C" [[gnu::visibility("hidden"), noreturn]] void restorer_go(Params* params) {
    const auto* stopped = at<std::int32_t>(params->stopped_children);
    for (std::uint32_t i = 0; i < params->stopped_children_count; ++i)
        call(SYS_waitid, 1, stopped[i], nullptr, 0x00000002, nullptr);  // P_PID, WSTOPPED
    // ... and so the SIGCHLDs of now; what the program has yet to be told is queued next
    const std::uint64_t child_signal = std::uint64_t{1} << 16;
    const timespec now = {0, 0};
    while (params->drop_child_signals != 0 &&
           call(SYS_rt_sigtimedwait, &child_signal, nullptr, &now, sizeof child_signal) > 0) {
    }
    queue_pending(params);
    arm_timers(params);
    // A trap while its signal is blocked takes the program's handler away (force_sig): our first has done so,
    // and has unblocked it, so that the next ones don't.
    const std::uint64_t trapped = std::uint64_t{1} << (trap_signal - 1);
    call(SYS_rt_sigprocmask, 1, &trapped, nullptr, sizeof trapped);  // SIG_UNBLOCK
    call(SYS_rt_sigaction, trap_signal, &params->actions[trap_signal - 1], nullptr, sizeof trapped);
    go_on_clock(params, *at<Thread>(params->threads));
    go_on_clock(params);
    protect_memory(params);
    // last: the tool, unless privileged, can't reach our memory from here on
    call(SYS_prctl, PR_SET_DUMPABLE, params->dumpable == 1 ? 1 : 0, 0, 0, 0);
    trap();
}

asm(R"(
    .pushsection .entries, "a"
    .quad restorer_rebuild
    .quad restorer_go
    .quad blob_end
    .popsection
)");

}  // namespace cairn::restart::restorer
