// What the restorer gives to each thread, and the signals and timers of the whole process.
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>

#include "common/cpu_clock.h"
#include "common/cpu_state.h"
#include "common/privileges.h"
#include "common/ptrace/thread.h"
#include "common/siginfo.h"
#include "restart/protections.h"
#include "restart/rebuild/filters.h"
#include "restart/rebuild/hand_over.h"
#include "restart/rebuild/parameters.h"

namespace cairn::restart {
namespace {

// siginfo_t of each pending signal, with senders as the kernel names them.
schema::Bytes pending_signals(const std::vector<schema::Bytes>& pending, const ToKernel& to_kernel) {
    schema::Bytes infos;
    for (auto info : pending) {
        info.resize(sizeof(siginfo_t));
        translate_sender<ProgramId>(info, to_kernel);
        infos.insert(infos.end(), info.begin(), info.end());
    }
    return infos;
}

// A SIGSTOP that waits for a traced thread is sent again when its tracer has it (hand_over.cpp).
std::vector<schema::Bytes> pending_at_once(const schema::Thread& thread) {
    auto pending = thread.pending;
    if (thread.tracing)
        std::erase_if(pending, [](const schema::Bytes& info) { return signal_of(info) == SIGSTOP; });
    return pending;
}

// 0: a main thread that has ended has none.
std::uint64_t thread_pointer_of(const schema::Thread& thread) {
    ptrace::Registers registers = {};
    if (thread.registers.size() == sizeof registers)
        std::memcpy(&registers, thread.registers.data(), sizeof registers);
    return registers.fs_base;
}

restorer::Thread thread_parameters(ParameterBlock& block, const schema::Thread& thread,
                                   const ToKernel& to_kernel, const Scheduling& own) {
    restorer::Thread out = {};
    out.image_tid = thread.tid.number();
    out.old_tid = thread.own_tid.value_or(thread.kernel_tid.number());
    out.altstack_base = thread.altstack_base.value();
    out.altstack_size = thread.altstack_size;
    out.altstack_flags = thread.altstack_flags;
    out.death_signal = thread.death_signal;
    out.clear_child_tid = thread.clear_child_tid.value();
    out.robust_list = thread.robust_list.value();
    out.robust_list_size = thread.robust_list_size;
    out.rseq = thread.rseq.value();
    out.rseq_size = thread.rseq_size;
    out.rseq_signature = thread.rseq_signature;
    out.timerslack = thread.timerslack;
    out.no_time_stamps = thread.no_time_stamps.value_or(false) ? 1 : 0;
    out.no_cpuid = thread.no_cpuid.value_or(false) ? 1 : 0;
    const auto& speculation = own_protections().speculation;
    out.store_bypass = speculation_to_set(speculation.store_bypass, thread.store_bypass);
    out.indirect_branch = speculation_to_set(speculation.indirect_branch, thread.indirect_branch);
    out.uses_tiles = (components_in_use(thread.xstate) >> tile_data & 1) != 0 ? 1 : 0;
    out.memory_errors = thread.memory_errors.value_or(PR_MCE_KILL_DEFAULT);
    std::strncpy(out.name, thread.name.c_str(), sizeof out.name - 1);
    out.sched_policy = static_cast<std::uint32_t>(thread.policy);
    out.sched_priority = static_cast<std::uint32_t>(thread.priority);
    out.nice = thread.nice;
    out.ioprio = io_priority(thread.ioprio);
    const bool fair = thread.policy == SCHED_OTHER || thread.policy == SCHED_BATCH;
    out.sched_runtime = fair ? thread.slice.value_or(0) : thread.sched_runtime;
    out.sched_deadline = thread.sched_deadline;
    out.sched_period = thread.sched_period;
    // Those that a program sets for good; clamps of utilization (Linux 5.3) are said by flags as well, and
    // aren't saved.
    constexpr std::uint64_t lasting =
        0x1 | 0x2 | 0x4;  // RESET_ON_FORK, RECLAIM, DL_OVERRUN of <linux/sched.h>
    out.sched_flags = thread.sched_flags.value_or(0) & lasting;
    if (thread.leader_dead) out.altstack_flags = 2;  // SS_DISABLE
    out.set_scheduling = !thread.leader_dead && !own.same_as(thread) ? 1 : 0;
    out.affinity = block.add(thread.affinity).value();
    out.affinity_size = thread.affinity.size();
    const std::uint64_t borrowed = borrows_right(thread) ? std::uint64_t{1} << CAP_SYS_ADMIN : 0;
    out.cap_effective = thread.cap_effective | borrowed;
    out.cap_permitted = thread.cap_permitted | borrowed;
    out.cap_inheritable = thread.cap_inheritable;
    out.cap_ambient = thread.cap_ambient;
    out.memory_policy = thread.memory_policy;
    out.memory_nodes = thread.memory_policy == 0 ? 0 : block.add(thread.memory_nodes).value();
    out.node_count = thread.memory_nodes.size() * 8 + 1;
    out.no_new_privs = thread.no_new_privs ? 1 : 0;
    out.thread_pointer = thread_pointer_of(thread);
    out.cpu_ns = thread.cpu_ns;
    const auto pending = pending_at_once(thread);
    out.pending = block.add(pending_signals(pending, to_kernel)).value();
    out.pending_count = static_cast<std::uint32_t>(pending.size());
    return out;
}

// What a thread has for itself and not with its process.
void add_own(ParameterBlock& block, const schema::Process& process, const schema::Thread& thread,
             const Inherited& inherited, restorer::Thread& out) {
    if (const auto& ids = thread.own_ids) {
        restorer::Credentials wanted = {};
        wanted.change = 1;
        std::ranges::copy(ids->uids, wanted.uids);
        std::ranges::copy(ids->gids, wanted.gids);
        wanted.securebits = ids->securebits;
        wanted.keep_caps = ids->keep_caps ? 1 : 0;
        wanted.set_groups = own_privileges().groups == ids->groups ? 0 : 1;
        wanted.groups = block.add(ids->groups).value();
        wanted.group_count = ids->groups.size();
        wanted.cap_bounding = ids->cap_bounding;
        out.credentials = block.add(&wanted, sizeof wanted).value();
    }
    if (const auto& folders = thread.own_folders) {
        const auto place = [&](std::int64_t object) {
            return object >= 0 ? inherited.objects.place_of(process, object) : -1;
        };
        out.own_folders = 1;
        out.cwd_fd = place(folders->cwd);
        out.root_fd = folders->root == process.root ? -1 : place(folders->root);
        out.umask = folders->umask;
    }
}

// Threads are the restorer's to translate, who makes them; the process that a clock is of is there already.
restorer::Timer timer_parameters(const schema::Process& process, const schema::PosixTimer& timer,
                                 const ToKernel& to_kernel) {
    const auto is_own = [&](ProgramId tid) {
        return std::ranges::find(process.threads, tid, &schema::Thread::tid) != process.threads.end();
    };
    restorer::Timer out = {timer.id, timer.clock, timer.notify, timer.signal,  timer.tid.number(),
                           0,        timer.value, timer.left,   timer.interval};
    if (timer.tid.known() && !is_own(timer.tid)) {  // that thread has ended: nobody is told
        out.notify = SIGEV_NONE;
        out.tid = 0;
    }
    const auto task = names_task(timer.clock) ? task_of<ProgramId>(timer.clock) : ProgramId();
    if (is_own(task))
        out.own_clock = 1;
    else if (task.known())
        out.clock = clock_of_task(timer.clock, to_kernel(task));
    return out;
}

void add_cpu_time(restorer::Params& params, const schema::Process& process) {
    params.door = process.door.value();
    // Without a place for notes there is none for this, whatever the library says (capture/group.h).
    params.has_notes = process.timing_tls == 0 ? 0 : 1;
    params.cpu_ns = process.cpu_ns;
    params.cpu_user_us = process.cpu_user_us;
    params.cpu_system_us = process.cpu_system_us;
    params.cpu_children_user_us = process.cpu_children_user_us;
    params.cpu_children_system_us = process.cpu_children_system_us;
}

}  // namespace

ProgramAddress add_threads(ParameterBlock& block, const Rebuilding& rebuilding, const Inherited& inherited) {
    std::vector<restorer::Thread> threads;
    const auto own = own_scheduling();
    for (const auto& thread : rebuilding.process->threads) {
        auto out = thread_parameters(block, thread, rebuilding.translation.to_kernel, own);
        add_own(block, *rebuilding.process, thread, inherited, out);
        if (!threads.empty() && thread.own_tid)
            out.tid = *thread.own_tid;
        else if (!threads.empty() && inherited.exact_ids)
            out.tid = kernel_id_of_same_number(thread.tid).number();
        threads.push_back(out);
    }
    block.add(threads, &restorer::Params::threads, &restorer::Params::thread_count);
    add_cpu_time(block.params(), *rebuilding.process);
    return ProgramAddress(block.params().threads);
}

void add_signals(ParameterBlock& block, const Rebuilding& rebuilding) {
    const schema::Process& process = *rebuilding.process;
    std::vector<restorer::Timer> timers;
    for (const auto& timer : process.timers)
        timers.push_back(timer_parameters(process, timer, rebuilding.translation.to_kernel));
    std::ranges::sort(timers, {}, &restorer::Timer::id);  // the kernel counts upwards
    const auto pending_at = block.add(pending_signals(process.pending, rebuilding.translation.to_kernel));
    block.add(timers, &restorer::Params::timers, &restorer::Params::timer_count);
    auto& params = block.params();
    params.pending = pending_at.value();
    params.pending_count = process.pending.size();
    for (std::size_t i = 0; i < process.actions.size() && i < 64; ++i) {
        const auto& action = process.actions[i];
        params.actions[i] = {action.handler.value(), action.flags, action.restorer.value(), action.mask};
    }
    for (std::size_t i = 0; i < process.itimers.size() && i < 3; ++i) {
        const auto& timer = process.itimers[i];
        params.itimers[i] = {timer.interval_us / 1'000'000, timer.interval_us % 1'000'000,
                             timer.left_us / 1'000'000, timer.left_us % 1'000'000};
    }
}

}  // namespace cairn::restart
