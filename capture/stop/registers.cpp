// The registers of threads that stand still, and what is made of them before the threads go on.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include "capture/collect/filters.h"
#include "capture/hide_stop.h"
#include "capture/stop/stopping.h"
#include "capture/strangers.h"
#include "common/agent.h"
#include "common/proc.h"
#include "common/ptrace/restart_code.h"

namespace cairn::capture {
namespace {

// A static program that hasn't been given the library by a checkpoint and yet has it: the loader of a program
// that it simulates has loaded it.
Result<bool> is_simulator(const StoppedProcess& process) {
    if (!process.registered || heeds_preload(process.living)) return false;
    const auto placed =
        TRY(ptrace::read_object<std::uint32_t>(process.living, process.door + offsetof(Door, placed)));
    return placed == 0;
}

// qemu's user mode interprets a program for this kind of machine: its code isn't executable for the
// processor, and no agent can run in it. Its loader has loaded libcairn.so a second time, into what is
// interpreted, and that one has registered the process. The emulator is told by its name, so that no other
// process's map is read for this.
Result<> refuse_interpreted(const StoppedProcess& process) {
    if (!process.registered) return {};
    const auto program = proc::read_link(fmt::format("/proc/{}/exe", process.living));
    if (!program || !std::string_view(*program).substr(program->rfind('/') + 1).starts_with("qemu-"))
        return {};
    const ProgramAddress entry(
        TRY(ptrace::read_object<std::uint64_t>(process.living, process.door + offsetof(Door, entry))));
    const auto maps = TRY(proc::maps(process.living, false));
    const auto holds =
        std::ranges::find_if(maps, [&](const auto& line) { return line.start <= entry && entry < line.end; });
    if (holds != maps.end() && (holds->prot & PROT_EXEC) != 0) return {};
    return fail_code(
        ExitCode::refused,
        "{}: interprets a program that has loaded libcairn.so; start it by `{} -U LD_PRELOAD PROGRAM`, "
        "so that it is loaded by the emulator only",
        proc::label(process.pid), *program);
}

// The main thread first. Where they are as many as are seized they are those: a thousand are listed in a
// millisecond.
Result<std::vector<pid_t>> all_threads(const SeizedThreads& seized, const StoppedProcess& process) {
    const auto known = seized.of(process.pid);
    if (process.stat.threads != std::ranges::distance(known)) return proc::tasks(process.pid);
    std::vector<pid_t> tids;
    for (const auto& thread : known) tids.push_back(thread.tid);
    const auto main = std::ranges::find(tids, process.pid);
    if (main != tids.end()) std::rotate(tids.begin(), main, main + 1);
    return tids;
}

}  // namespace

Result<bool> read_registers(Stopping& group, StoppedProcess& process) {
    SeizedThreads& seized = group.threads;
    auto stat = proc::stat(process.pid);
    if (!stat) return std::unexpected(std::move(stat.error()).in(proc::label(process.pid)));
    process.stat = *stat;
    process.clock_shift = proc::own_clock_offsets(std::to_string(process.living)).monotonic -
                          proc::clock_offsets("self").monotonic;
    // A dead main thread has no descriptors to be duplicated.
    if (process.living != process.pid && !process.open_pidfd())
        return fail_code(ExitCode::refused,
                         "{}: its main thread has exited, and this kernel can't name the others",
                         proc::label(process.pid));
    CHECK_OK(refuse_interpreted(process));
    process.simulates = TRY(is_simulator(process));
    if (process.simulates) process.timing_tls = process.rseq_tls = 0;
    auto threads = TRY(all_threads(seized, process));
    process.threads.clear();
    process.threads.reserve(threads.size());
    for (const pid_t tid : threads) {
        StoppedThread thread;
        thread.tid = tid;
        const auto* known = seized.find(tid);
        if (known == nullptr) {
            const auto now = proc::stat(process.pid, tid);
            if (now && is_kernels(*now) && tid != process.pid) continue;
            if (now && !dead(now->state)) return false;
            // Only a main thread stays dead as long as the others live. Who has ended else is listed until
            // the kernel has taken it off the list (release_task()), which may take long on a busy machine:
            // it isn't there any more.
            if (tid != process.pid) continue;
            thread.leader_dead = true;
            process.threads.push_back(thread);
            continue;
        }
        if (known->stop_signal != 0) {
            process.job_stopped = true;
            process.stop_signal = known->stop_signal;
        }
        thread.registers = TRY(ptrace::registers(tid));
        thread.mask = TRY(ptrace::mask(tid));
        thread.dispatch = TRY(ptrace::call_dispatch(tid));
        (void)as_its_tracer_sees(group, thread);
        process.threads.push_back(thread);
    }
    return true;
}

namespace {

void hide_from_still(const Stopping& group, StoppedProcess& process) {
    if (!find_doors(group, process)) return;
    process.threads.clear();
    for (const auto& seized : group.threads.of(process.pid)) {
        if (!seized.still) continue;
        auto registers = ptrace::registers(seized.tid);
        auto mask = ptrace::mask(seized.tid);
        if (!registers || !mask) continue;
        StoppedThread thread;
        thread.tid = seized.tid;
        thread.registers = *registers;
        thread.mask = *mask;
        (void)as_its_tracer_sees(group, thread);
        process.threads.push_back(thread);
    }
    hide_stop(process);
}

// A thread that was interrupted leaves its system call, and with EINTR if nobody makes the call again. It
// does so as soon as it gets a processor, which may be after we have gone, so it is waited for. Not so one
// that sleeps until its vfork child execs, or for a disk.
void let_silent_stop(Stopping& group) {
    constexpr auto longest =
        std::chrono::milliseconds(1'000);  // the coordinator waits for us no longer than three times that
    const auto until = Clock::now() + longest;
    const auto may_come = [](const SeizedThread& thread) {
        if (thread.still) return false;
        const auto stat = proc::stat(thread.pid, thread.tid);
        return stat && stat->state != 'D' && !dead(stat->state);
    };
    for (drain_events(group); Clock::now() < until && std::ranges::any_of(group.threads.all(), may_come);
         drain_events(group))
        await_event();
}

// Main threads first: see seize_new_threads().
void detach_all(SeizedThreads& threads) {
    for (const bool main_thread : {true, false})
        for (const auto& thread : threads.all())
            if (thread.still && thread.is_main() == main_thread) (void)ptrace::detach(thread.tid, 0);
    // A thread that never stopped can't be detached; the kernel does it when the tracer ends.
    threads.erase_if([](const SeizedThread& thread) { return thread.still; });
}

// Nobody has asked their filters, or they have said no.
void spare_restarts(const SeizedThreads& threads) {
    for (const auto& thread : threads.all())
        if (thread.still) spare_restart(thread.tid);
}

}  // namespace

// A main thread that stood still is gone without a word when a sibling execs that wasn't seized yet: who goes
// by its id now isn't ours (ESRCH).
Result<bool> read_all_registers(Stopping& group) {
    bool complete = true;
    for (auto& [pid, tracked] : group.processes) {
        if (!tracked.is_held() || group.tracers.find(pid) != nullptr) continue;
        auto done = read_registers(group, tracked.process);
        if (!done && done.error().number != ESRCH) return std::unexpected(std::move(done.error()));
        if (done && *done) continue;
        // Whom its tracer has let go of can't run on by itself.
        if (group.tracers.traces_any_of(pid))
            tracked.stage = Stage::seized;
        else
            release(group, pid);
        complete = false;
    }
    return complete;
}

// What the kernel would go on with by restart_syscall(2) where a seccomp filter may kill for that: the call
// is made anew, which it was allowed. (How long it was to sleep is known of most, and said by
// capture/hide_stop.cpp by now: the others sleep as long again. Any stop and continuation by job control is
// as dangerous to them.)
void spare_restart(pid_t tid) {
    auto registers = ptrace::registers(tid);
    if (!registers || !says(*registers, RestartCode::by_block) ||
        static_cast<std::int64_t>(registers->orig_rax) < 0 || !may_not_restart(tid))
        return;
    say(*registers, RestartCode::unless_any_handler);
    (void)ptrace::set_registers(tid, *registers);
}

// Given up in the middle of it: nobody may notice that he was stopped.
Stopping::~Stopping() {
    let_silent_stop(*this);
    for (auto& [pid, tracked] : processes)
        if (tracked.is_held() && tracers.find(pid) == nullptr) hide_from_still(*this, tracked.process);
    tracers.give_back(threads, [this](pid_t pid) -> const StoppedProcess* {
        const auto found = processes.find(pid);
        return found == processes.end() ? nullptr : &found->second.process;
    });
    spare_restarts(threads);
    detach_all(threads);
}

// Given up before the pause had begun, or all is done.
StoppedGroup::~StoppedGroup() {
    for (auto& [pid, process] : processes_)
        if (!process.stop_hidden) hide_stop(process);
    give_back();
    spare_restarts(threads_);
    detach_all(threads_);
}

void StoppedGroup::give_back() {
    tracers_.give_back(threads_, [this](pid_t pid) -> const StoppedProcess* {
        const auto found = processes_.find(pid);
        return found == processes_.end() ? nullptr : &found->second;
    });
}

void StoppedGroup::let_go() {
    give_back();
    detach_all(threads_);
}
}  // namespace cairn::capture
