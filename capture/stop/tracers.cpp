#include "capture/stop/tracers.h"

#include <sys/ptrace.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "common/agent.h"
#include "common/proc.h"
#include "common/region.h"

namespace cairn::capture {
namespace {

using Notes = std::vector<TraceNote>;

Result<Notes> read_notes(const StoppedProcess& process) {
    const auto count =
        TRY(ptrace::read_object<std::uint32_t>(process.living, process.door + offsetof(Door, note_count)));
    if (count > max_trace_notes)
        return fail_code(ExitCode::refused,
                         "{} traces more threads than {}: how it traces them isn't known of all",
                         proc::label(process.pid), max_trace_notes);
    Notes notes(count);
    if (count != 0)
        CHECK_OK(ptrace::read_memory(process.living, process.door + offsetof(Door, trace_notes),
                                     std::as_writable_bytes(std::span(notes))));
    return notes;
}

const TraceNote* note_of(const Notes& notes, ProgramId tid) {
    const auto found = std::ranges::find(notes, tid.number(), &TraceNote::tid);
    return found == notes.end() ? nullptr : &*found;
}

}  // namespace

Tracer* Tracers::find(pid_t pid) {
    const auto found = std::ranges::find(tracers_, pid, &Tracer::pid);
    return found == tracers_.end() ? nullptr : &*found;
}

std::optional<Tracers::Found> Tracers::tracing_of(pid_t tid) const {
    for (const auto& tracer : tracers_)
        for (const auto& tracee : tracer.tracees)
            if (tracee.tid == tid) return Found{tracer, tracee};
    return std::nullopt;
}

bool Tracers::traces_any_of(pid_t pid) const {
    return std::ranges::any_of(tracers_, [pid](const Tracer& tracer) {
        return std::ranges::any_of(tracer.tracees, [pid](const Tracee& each) { return each.pid == pid; });
    });
}

Result<Tracer*> Tracers::enter(StoppedProcess& process, pid_t tid) {
    // Places of Region::talks from the end; the pass that collects gives them out from the beginning.
    const auto talk = static_cast<std::uint32_t>(slot_count - 1 - tracers_.size());
    auto status = TRY(proc::status(process.pid, tid));
    Tracer& tracer = tracers_.emplace_back();
    tracer.pid = process.pid;
    tracer.tid = tid;
    tracer.process = &process;
    tracer.agent.emplace(process, talk, capture_, status["Seccomp"] == "0", tid);
    if (auto done = tracer.agent->start(); !done) {
        tracers_.pop_back();
        return std::unexpected(std::move(done.error()));
    }
    return &tracer;
}

// What was noted of the thread; or, of one that the kernel has attached by itself when it was born
// (PTRACE_O_TRACECLONE, PTRACE_O_TRACEFORK), of the one that it was born of: these options go on to it. Who
// was traced by PTRACE_TRACEME was attached without a word.
Result<> Tracers::describe(const Tracer& tracer, Tracee& tracee) const {
    const auto notes = TRY(read_notes(*tracer.process));
    bool has_options = false, has_how = false;
    const auto learn = [&](pid_t tid) {
        const auto* note = note_of(notes, regions_->to_program(KernelId(tid)));
        if (note == nullptr) return;
        if (tid == tracee.tid) {
            tracee.resume = note->resume;
            if (note->asked != 0) tracee.stop = TraceStop::interrupted;
        }
        if (!has_options && note->has_options != 0) {
            has_options = true;
            tracee.options = note->options;
        }
        if (!has_how && note->how != 0) {
            has_how = true;
            tracee.seized = note->how == PTRACE_SEIZE ? 1 : 0;
        }
    };
    learn(tracee.tid);
    learn(tracee.pid);
    pid_t above = tracee.pid;
    for (int generations = 0; generations < 64 && !has_options && above > 1; ++generations) {
        const auto stat = proc::stat(above);
        if (!stat || stat->ppid == tracer.pid) break;
        above = stat->ppid;
        learn(above);
    }
    // Its parent has gone: as all others.
    for (const auto& note : notes) {
        if (note.tid == 0) continue;
        if (!has_options && note.has_options != 0) {
            has_options = true;
            tracee.options = note.options;
            if (!has_how) tracee.seized = note.how == PTRACE_SEIZE ? 1 : 0;
        }
    }
    return {};
}

Result<> Tracers::let_go(Tracer& tracer, pid_t pid, pid_t tid, ProgramAddress park) {
    const StoppedProcess& process = *tracer.process;
    if (tracer.tracees.size() >= max_tracees)
        return fail_code(ExitCode::refused, "{} traces more than {} threads, which can't be saved",
                         proc::label(tracer.pid), max_tracees);
    Tracee tracee{};
    tracee.tid = tid;
    tracee.pid = pid;
    tracee.park = park.value();
    CHECK_OK(describe(tracer, tracee));
    const auto index = tracer.tracees.size();
    const auto at = process.door + offsetof(Door, tracees) + index * sizeof(Tracee);
    CHECK_OK(ptrace::write_object(process.living, at, tracee));
    CHECK_OK(tracer.agent->ask(agent_let_go, index));
    const auto answer = TRY(tracer.agent->wait(*reporter_));
    if (answer != 0) {
        auto error = fail_code(
            ExitCode::refused,
            "thread {} of {} stands in a stop of which its tracer, {}, has just been told and which can't be "
            "made again (an exec, a birth, an end, or a stop by job control): try again",
            tid, proc::label(pid), proc::label(tracer.pid));
        error.error().passing = true;
        return error;
    }
    tracee = TRY(ptrace::read_object<Tracee>(process.living, at));
    tracer.tracees.push_back(tracee);
    return {};
}

void Tracers::rebind(std::map<pid_t, StoppedProcess>& processes) {
    for (auto& tracer : tracers_) {
        const auto found = processes.find(tracer.pid);
        if (found == processes.end()) continue;
        tracer.process = &found->second;
        tracer.agent->rebind(found->second);
    }
}

// The tracer is told of the registers that its tracee has when the stop is hidden.
void Tracers::hand_over(SeizedThreads& threads, const StoppedProcess* process, Tracee& tracee) const {
    if (process != nullptr)
        for (const auto& thread : process->threads)
            if (thread.tid == tracee.tid)
                std::memcpy(tracee.registers, &thread.registers, sizeof tracee.registers);
    const auto* seized = threads.find(tracee.tid);
    if (seized == nullptr || !seized->still) return;
    (void)ptrace::detach(tracee.tid, 0);
    threads.erase(tracee.tid);
}

void Tracers::take_back(Tracer& tracer) const {
    const StoppedProcess& process = *tracer.process;
    const auto undoing = reporter_->undo();
    const auto done = [&]() -> Result<> {
        if (!tracer.tracees.empty())
            CHECK_OK(ptrace::write_memory(process.living, process.door + offsetof(Door, tracees),
                                          std::as_bytes(std::span(tracer.tracees))));
        CHECK_OK(tracer.agent->go_on());
        CHECK_OK(tracer.agent->ask(agent_take, tracer.tracees.size()));
        CHECK_OK(tracer.agent->wait(*reporter_));
        return tracer.agent->leave(*reporter_);
    }();
    // The agent sees that its capture is no longer there and does this by itself.
    if (!done) regions_->set_capture(0);
}

}  // namespace cairn::capture
