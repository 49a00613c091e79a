// What each thread of a stopped process has for itself: registers, names, scheduling, robust futexes.
#include <linux/securebits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/collect/collect.h"
#include "capture/collect/filters.h"
#include "capture/collect/landlock.h"
#include "capture/rseq.h"
#include "common/ipc_arguments.h"
#include "common/pid_arguments.h"
#include "common/same.h"
#include "common/sched_attributes.h"
#include "common/speculation.h"

namespace cairn::capture {
namespace {

schema::Bytes bytes_of(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::uint8_t*>(data);
    return {begin, begin + size};
}

// Without the words behind the last node.
schema::Bytes nodes_of(const AgentThread& answers) {
    std::size_t words = std::size(answers.memory_nodes);
    while (words > 0 && answers.memory_nodes[words - 1] == 0) --words;
    return bytes_of(answers.memory_nodes, words * sizeof answers.memory_nodes[0]);
}

// Since Linux 6.12 a thread may choose for how long it wants the processor at a time; who hasn't is told what
// all have (get_params(), kernel/sched/syscalls.c), as we are, who have let it be so (common/own_process.h).
std::optional<std::uint64_t> own_slice(const SchedAttributes& attributes) {
    static const std::uint64_t usual = [] {
        SchedAttributes own = {};
        return ::syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) == 0 ? own.runtime : 0;
    }();
    if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return std::nullopt;
    return attributes.runtime == usual ? std::nullopt : std::optional(attributes.runtime);
}

void collect_scheduling(pid_t tid, schema::Thread& image) {
    SchedAttributes attributes = {};
    if (::syscall(SYS_sched_getattr, tid, &attributes, sizeof attributes, 0) == 0) {
        image.policy = static_cast<std::int32_t>(attributes.policy);
        image.priority = static_cast<std::int32_t>(attributes.priority);
        image.nice = attributes.nice;
        image.sched_runtime = attributes.runtime;
        image.slice = own_slice(attributes);
        image.sched_deadline = attributes.deadline;
        image.sched_period = attributes.period;
        image.sched_flags = attributes.flags;
    }
    std::uint8_t cpus[1024] = {};
    if (const long size = ::syscall(SYS_sched_getaffinity, tid, sizeof cpus, cpus); size > 0)
        image.affinity = bytes_of(cpus, static_cast<std::size_t>(size));
    constexpr int ioprio_who_process = 1;
    image.ioprio = static_cast<std::int32_t>(::syscall(SYS_ioprio_get, ioprio_who_process, tid));
}

schema::OwnIds ids_of(const proc::Status& status) {
    schema::OwnIds own;
    read_ids(status["Uid"], own.uids);
    read_ids(status["Gid"], own.gids);
    own.groups = groups_of(status["Groups"]);
    own.cap_bounding = proc::hexadecimal(status["CapBnd"]);
    return own;
}

// What else is saved once for all threads. While a program changes its user in every thread (libc does so one
// by one) they differ for a moment, and come back so.
Result<> collect_own(const StoppedProcess& process, pid_t tid, const AskedOfThread& asked,
                     schema::Thread& image) {
    if (tid == process.first_living().tid) return {};
    if (asked.own_ids != process.first_living().asked->own_ids) image.own_ids = ids_of(asked.status);
    if (asked.own_descriptors)
        return fail_code(ExitCode::refused,
                         "thread {} has a descriptor table of its own, which can't be saved", tid);
    // Its folders are found with the other objects.
    if (asked.own_folders) image.own_folders = schema::OwnFolders{-1, -1, umask_of(asked.status["Umask"])};
    return {};
}

Result<schema::Thread> collect_thread(const StoppedProcess& process, StoppedThread& thread,
                                      const ToProgram& to_program, IpcMap& ipc, schema::Process& of) {
    schema::Thread image;
    if (thread.asked) image = std::move(thread.asked->image);
    image.kernel_tid = KernelId(thread.tid);
    image.tid = to_program(image.kernel_tid);
    if (process.inner) image.own_tid = TRY(proc::inner_ids(process.pid, thread.tid)).own().pid;
    image.leader_dead = thread.leader_dead;
    if (thread.leader_dead) {
        image.name = TRY(proc::status(process.pid, thread.tid)).name();
        return image;
    }
    if (thread.asked->has_filters)
        CHECK_OK(collect_filters(process, thread, thread.asked->status, of, image));
    thread.ask_landlock = whether_to_ask(process, thread, image);
    auto sequence = TRY(rseq_of(process, thread));
    image.rseq = sequence.address;
    image.rseq_size = sequence.size;
    image.rseq_signature = sequence.signature;
    image.rseq_flags = sequence.flags;
    auto registers = thread.registers;
    if (!process.inner) translate_pid_arguments<KernelId>(registers, to_program);
    translate_ipc_arguments(registers,
                            [&](IpcKind kind, std::int32_t id) { return ipc_to_program(ipc, kind, id); });
    image.registers = bytes_of(&registers, sizeof registers);
    auto& state = thread.xstate;
    if (state.bytes.size() < state.whole_size) image.xstate_size = state.whole_size;
    image.xstate = std::move(state.bytes);
    image.blocked = thread.mask;
    CHECK_OK(collect_own(process, thread.tid, *thread.asked, image));
    image.timeout_left = thread.timeout_left;
    if (const auto& dispatch = thread.dispatch)
        image.dispatch = schema::CallDispatch{dispatch->selector, dispatch->start, dispatch->length};
    return image;
}

}  // namespace

AskedOfThread ask_of_thread(const StoppedProcess& process, pid_t tid, proc::Status status) {
    AskedOfThread asked{.status = std::move(status), .image = {}, .own_ids = {}};
    auto& image = asked.image;
    // In the order of the lines: each is looked for behind the one before.
    image.name = asked.status.name();
    for (const char* line : {"Uid", "Gid", "Groups"}) asked.own_ids.append(asked.status.line(line)) += '\n';
    asked.has_pending = proc::hexadecimal(asked.status["SigPnd"]) != 0;
    image.cap_inheritable = proc::hexadecimal(asked.status["CapInh"]);
    image.cap_permitted = proc::hexadecimal(asked.status["CapPrm"]);
    image.cap_effective = proc::hexadecimal(asked.status["CapEff"]);
    asked.own_ids.append(asked.status.line("CapBnd"));
    image.cap_ambient = proc::hexadecimal(asked.status["CapAmb"]);
    image.no_new_privs = asked.status["NoNewPrivs"] == "1";
    asked.has_filters = asked.status["Seccomp"] != "0";
    const auto speculation = speculation_of(asked.status);
    image.store_bypass = speculation.store_bypass;
    image.indirect_branch = speculation.indirect_branch;
    std::uint64_t robust = 0;
    std::size_t robust_size = 0;
    if (::syscall(SYS_get_robust_list, tid, &robust, &robust_size) == 0) {
        image.robust_list = ProgramAddress(robust);
        image.robust_list_size = robust_size;
    }
    collect_scheduling(tid, image);
    if (const pid_t first = process.first_living().tid; tid != first) {
        asked.own_descriptors = !share_descriptors(process.pid, first, tid);
        asked.own_folders = !share_folders(process.pid, first, tid);
    }
    return asked;
}

Result<> read_states(StoppedProcess& process) {
    for (auto& thread : process.threads) {
        if (thread.leader_dead) continue;
        auto state = TRY(ptrace::xstate(thread.tid));
        thread.xstate = std::move(state);
    }
    return {};
}

Result<> collect_threads(StoppedProcess& process, const ToProgram& to_program, IpcMap& ipc,
                         schema::Process& image) {
    image.threads.reserve(process.threads.size());
    for (auto& stopped : process.threads) {
        auto thread = collect_thread(process, stopped, to_program, ipc, image);
        if (!thread) return std::unexpected(std::move(thread.error()).in(proc::label(process.pid)));
        image.threads.push_back(std::move(*thread));
    }
    return collect_pending(process, to_program, image);
}

void add_thread_answers(const std::vector<AgentThread>& answers, schema::Process& image) {
    for (std::size_t i = 0; i < image.threads.size(); ++i) {
        auto& thread = image.threads[i];
        thread.altstack_base = ProgramAddress(answers[i].altstack_base);
        thread.altstack_size = answers[i].altstack_size;
        thread.altstack_flags = answers[i].altstack_flags;
        thread.clear_child_tid = ProgramAddress(answers[i].clear_child_tid);
        thread.timerslack = answers[i].timerslack;
        thread.death_signal = answers[i].death_signal;
        if (const auto policy = answers[i].memory_errors; policy >= 0 && policy != PR_MCE_KILL_DEFAULT)
            thread.memory_errors = policy;
        if (answers[i].tsc == PR_TSC_SIGSEGV) thread.no_time_stamps = true;
        if (answers[i].no_cpuid != 0) thread.no_cpuid = true;
        thread.cpu_ns = answers[i].cpu_ns;
        if (thread.own_ids) {
            thread.own_ids->securebits = static_cast<std::uint32_t>(answers[i].securebits);
            thread.own_ids->keep_caps = (thread.own_ids->securebits & SECBIT_KEEP_CAPS) != 0;
        }
        thread.memory_policy = answers[i].memory_policy;
        if (thread.memory_policy != 0) thread.memory_nodes = nodes_of(answers[i]);
    }
}

}  // namespace cairn::capture
