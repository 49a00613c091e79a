// Processes of the group that another member of the group traces: their tracer lets go of them first.
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "capture/go_program.h"
#include "capture/hide_stop.h"
#include "capture/stop/stopping.h"
#include "capture/strangers.h"
#include "capture/translation.h"
#include "common/agent.h"

namespace cairn::capture {
namespace {

// The thread that traces it, by its number; 0: nobody.
pid_t tracer_of(pid_t pid, pid_t tid) {
    auto status = proc::status(pid, tid);
    return status ? std::atoi((*status)["TracerPid"].c_str()) : 0;
}

pid_t process_of(pid_t tid) {
    auto status = proc::status(tid, tid);
    return status ? std::atoi((*status)["Tgid"].c_str()) : 0;
}

// Who makes system calls past the library leaves no notes of how it traces (hijack/trace_notes.h).
Result<> refuse_without_notes(const StoppedProcess& process) {
    const auto placed =
        TRY(ptrace::read_object<std::uint32_t>(process.living, process.door + offsetof(Door, placed)));
    if (placed == 0 && !process.simulates && !is_go_program(process.living)) return {};
    return fail_code(
        ExitCode::refused,
        "{} traces others by system calls that it makes past libcairn.so (a static program, Go): "
        "how it does so can't be known, nor saved",
        proc::label(process.pid));
}

// The agent is put into the tracing thread when the first of its tracees is met.
Result<Tracer*> enter_tracer(Stopping& group, Tracked& tracked, pid_t tid) {
    StoppedProcess& process = tracked.process;
    const bool complete = TRY(read_registers(group, process));
    if (!complete) return nullptr;
    if (process.job_stopped)
        return fail_code(
            ExitCode::refused,
            "{} traces others and was stopped by job control: let it go on (fg, kill -CONT {}) before "
            "a checkpoint",
            proc::label(process.pid), process.pid);
    CHECK_OK(refuse_without_notes(process));
    leave_translations(process);
    hide_stop(process);
    return group.tracers.enter(process, tid);
}

// Why a process that its tracer holds isn't ready.
std::string_view what_keeps(pid_t pid, char state) {
    if (state == 'D') return "is in the middle of a vfork";
    if (expects_library(pid) != LibraryExpected::no) return "has not registered";
    return "has no libcairn.so in it (a static program, Go, another libc), which can't be placed there while "
           "it is traced";
}

}  // namespace

Result<Traced> ask_tracer(Stopping& group, pid_t pid, pid_t tid) {
    const pid_t tracing_thread = tracer_of(pid, tid);
    const pid_t tracing = tracing_thread == 0 ? 0 : process_of(tracing_thread);
    if (tracing == 0) return Traced::by_others;
    const auto found = group.processes.find(tracing);
    if (found == group.processes.end() || !found->second.is_known())
        return registration_of(group.regions, tracing) ? Traced::later : Traced::by_others;
    if (found->second.stage == Stage::left_out) return Traced::by_others;
    if (found->second.stage != Stage::looked_at || !all_still(group, tracing)) return Traced::later;
    // It sleeps where no signal wakes it, as until the exec of its vfork child.
    if (const auto stat = proc::stat(pid, tid); !stat || stat->state == 'D') return Traced::later;
    Tracer* tracer = group.tracers.find(tracing);
    if (tracer == nullptr) tracer = TRY(enter_tracer(group, found->second, tracing_thread));
    if (tracer == nullptr) return Traced::later;
    if (tracer->tid != tracing_thread)
        return fail_code(ExitCode::refused, "two threads of {} trace others, which can't be saved",
                         proc::label(tracing));
    StoppedProcess traced;
    traced.pid = pid;
    if (!find_doors(group, traced)) return Traced::later;
    const auto park =
        TRY(ptrace::read_object<std::uint64_t>(traced.living, traced.door + offsetof(Door, park)));
    CHECK_OK(group.tracers.let_go(*tracer, pid, tid, ProgramAddress(park)));
    return Traced::let_go;
}

Result<> refuse_waiting_for_tracer(Stopping& group) {
    constexpr auto patience = std::chrono::milliseconds(5);
    for (const auto& [pid, tracked] : group.processes) {
        if (tracked.stage != Stage::candidate) continue;
        const pid_t tracing_thread = tracer_of(pid, pid);
        const pid_t tracing = tracing_thread == 0 ? 0 : process_of(tracing_thread);
        if (tracing == 0 || group.stage_of(tracing) != Stage::looked_at) continue;
        // D: it sleeps until its vfork child executes, whom the same tracer may hold.
        const auto stat = proc::stat(pid, pid);
        if (!stat || (stat->state != 't' && stat->state != 'D')) continue;
        if (!group.tracer_awaited_since) group.tracer_awaited_since = Clock::now();
        if (Clock::now() - *group.tracer_awaited_since < patience) return {};
        auto error =
            fail_code(ExitCode::refused, "{} {}, and stands still until its tracer, {}, lets it go on",
                      proc::label(pid), what_keeps(pid, stat->state), proc::label(tracing));
        error.error().passing = true;
        return error;
    }
    group.tracer_awaited_since.reset();
    return {};
}

bool as_its_tracer_sees(const Stopping& group, StoppedThread& thread) {
    const auto found = group.tracers.tracing_of(thread.tid);
    if (!found) return false;
    thread.parked = thread.registers;
    std::memcpy(&thread.registers, found->tracee.registers, sizeof thread.registers);
    thread.mask = found->tracee.mask;
    thread.traced_by = found->tracer.pid;
    thread.stopped_by_it =
        found->tracee.stop != TraceStop::running && found->tracee.stop != TraceStop::in_call;
    return true;
}

Result<> refuse_untold_ends(const Stopping& group) {
    for (const auto& [pid, tracked] : group.processes) {
        const pid_t thread = tracked.stage == Stage::ended ? tracer_of(pid, pid) : 0;
        const pid_t tracing = thread == 0 ? 0 : process_of(thread);
        if (tracing == 0 || tracing == tracked.stat.ppid) continue;
        auto error =
            fail_code(ExitCode::refused, "{} has ended, and {}, which traces it, hasn't waited for it yet",
                      proc::label(pid), proc::label(tracing));
        error.error().passing = true;
        return error;
    }
    return {};
}

}  // namespace cairn::capture
