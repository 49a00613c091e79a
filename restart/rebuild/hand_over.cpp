#include "restart/rebuild/hand_over.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <vector>

#include "common/agent.h"
#include "common/ptrace/thread.h"
#include "common/siginfo.h"

namespace cairn::restart {
namespace {

constexpr std::uint64_t all_signals = ~0ULL;

TraceStop stop_of(schema::TracedStop stop) {
    switch (stop) {
        case schema::TracedStop::in_call:
            return TraceStop::in_call;
        case schema::TracedStop::interrupted:
            return TraceStop::interrupted;
        case schema::TracedStop::signal:
            return TraceStop::signal;
        case schema::TracedStop::call_entry:
            return TraceStop::call_entry;
        case schema::TracedStop::call_exit:
            return TraceStop::call_exit;
        case schema::TracedStop::running:
            break;
    }
    return TraceStop::running;
}

// The thread sleeps where its tracer will find it, and the tool traces it no more.
Result<Tracee> let_go_of(const Rebuilding& rebuilding, std::size_t index) {
    const auto& thread = rebuilding.process->threads[index];
    const auto& tracing = *thread.tracing;
    Tracee tracee{};
    tracee.tid = rebuilding.thread_ids[index].now.number();
    tracee.pid = rebuilding.pid;
    tracee.seized = tracing.seized ? 1 : 0;
    tracee.options = tracing.options;
    tracee.resume = tracing.resume;
    tracee.stop = stop_of(tracing.stop);
    tracee.told = tracing.told ? 1 : 0;
    const bool stop_waits = std::ranges::find(thread.pending, SIGSTOP, signal_of) != thread.pending.end();
    tracee.held = stop_waits ? 2 : 1;
    auto info = tracing.info;
    translate_sender<ProgramId>(info, rebuilding.translation.to_kernel);
    std::memcpy(tracee.info, info.data(), std::min(info.size(), sizeof tracee.info));
    for (std::size_t i = 0; i < std::min(tracing.debug_registers.size(), std::size(tracee.debug)); ++i)
        tracee.debug[i] = tracing.debug_registers[i];
    tracee.park = TRY(
        ptrace::read_object<std::uint64_t>(rebuilding.pid, rebuilding.process->door + offsetof(Door, park)));
    auto registers = TRY(ptrace::registers(tracee.tid));
    std::memcpy(tracee.registers, &registers, sizeof registers);
    tracee.mask = TRY(ptrace::mask(tracee.tid));
    registers.rip = tracee.park;
    registers.rax = 0;
    registers.eflags = 0x202;
    registers.orig_rax = static_cast<std::uint64_t>(-1);
    CHECK_OK(ptrace::set_registers(tracee.tid, registers));
    CHECK_OK(ptrace::set_mask(tracee.tid, all_signals));
    CHECK_OK(ptrace::detach(tracee.tid, 0));
    return tracee;
}

Result<> to_stop(pid_t tid) {
    CHECK_OK(ptrace::interrupt(tid));
    int status = 0;
    if (::waitpid(tid, &status, __WALL) != tid) return fail_errno("waiting for {}", tid);
    if (!WIFSTOPPED(status)) return fail("thread {} was killed before it could go on", tid);
    return {};
}

// By the agent in the tracer's own thread: a tracer is a thread.
Result<> take_all(const Rebuilding& tracer, ProgramId thread, const std::vector<Tracee>& tracees) {
    const auto door = tracer.process->door;
    const auto found = std::ranges::find(tracer.thread_ids, thread, &ThreadIds::image);
    if (found == tracer.thread_ids.end())
        return fail("process {} has no thread {}, which traces others", tracer.process->pid, thread);
    const pid_t tid = found->now.number();
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(tracees.size(), max_tracees));
    const auto version = TRY(ptrace::read_object<std::uint32_t>(tracer.pid, door + offsetof(Door, version)));
    if (version != agent_version)
        return fail_code(ExitCode::refused,
                         "process {} runs with the hijack library of another cairn version",
                         tracer.process->pid);
    CHECK_OK(ptrace::write_memory(tracer.pid, door + offsetof(Door, tracees),
                                  std::as_bytes(std::span(tracees).first(count))));
    CHECK_OK(ptrace::write_object(tracer.pid, door + offsetof(Door, tracee_count), count));
    CHECK_OK(ptrace::write_object(tracer.pid, door + offsetof(Door, taken), 0U));
    const auto registers = TRY(ptrace::registers(tid));
    const auto mask = TRY(ptrace::mask(tid));
    auto there = registers;
    there.rip = TRY(ptrace::read_object<std::uint64_t>(tracer.pid, door + offsetof(Door, take)));
    there.rdi = door.value();
    there.rsp =
        (door + offsetof(Door, leader) + offsetof(AgentRoom, stack) + sizeof(AgentRoom::stack) - 8).value();
    there.eflags = 0x202;
    there.orig_rax = static_cast<std::uint64_t>(-1);
    CHECK_OK(ptrace::set_registers(tid, there));
    CHECK_OK(ptrace::set_mask(tid, all_signals));
    CHECK_OK(ptrace::resume(tid, 0));
    using Clock = std::chrono::steady_clock;
    for (const auto until = Clock::now() + std::chrono::seconds(10);;) {
        const auto done = TRY(ptrace::read_object<std::uint32_t>(tracer.pid, door + offsetof(Door, taken)));
        if (done == 1) break;
        if (Clock::now() > until)
            return fail("process {} ({}) doesn't come to trace its programs again", tracer.process->pid,
                        tracer.process->name);
        const timespec slice = {0, 1'000'000};
        ::nanosleep(&slice, nullptr);
    }
    CHECK_OK(to_stop(tid));
    CHECK_OK(ptrace::set_registers(tid, registers));
    return ptrace::set_mask(tid, mask);
}

}  // namespace

// Who is traced itself and traces others takes these first: afterwards its own tracer has it.
Result<> hand_over(std::span<const Rebuilding> processes) {
    std::map<ProgramId, std::vector<ProgramId>> traces;  // tracer -> those that it traces
    for (const auto& one : processes)
        for (const auto& thread : one.process->threads)
            if (thread.tracing) traces[thread.tracing->tracer].push_back(one.process->pid);
    while (!traces.empty()) {
        const auto next = std::ranges::find_if(traces, [&](const auto& each) {
            return std::ranges::none_of(each.second, [&](ProgramId pid) { return traces.contains(pid); });
        });
        if (next == traces.end()) return fail("processes of the image trace each other in a circle");
        const auto tracer = std::ranges::find_if(
            processes, [&](const Rebuilding& one) { return one.process->pid == next->first; });
        if (tracer == processes.end())
            return fail("process {}, which traces others, isn't there", next->first);
        std::vector<Tracee> tracees;
        ProgramId thread;
        for (const auto& one : processes)
            for (std::size_t i = 0; i < one.thread_ids.size(); ++i) {
                if (!is_traced(one, i) || one.process->threads[i].tracing->tracer != next->first) continue;
                thread = one.process->threads[i].tracing->tracer_thread;
                auto tracee = TRY(let_go_of(one, i));
                tracees.push_back(tracee);
            }
        CHECK_OK(take_all(*tracer, thread, tracees));
        traces.erase(next);
    }
    return {};
}

}  // namespace cairn::restart
