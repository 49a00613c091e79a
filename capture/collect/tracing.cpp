// How threads are traced by other members, as their tracers have told when they let go of them.
#include <signal.h>

#include <iterator>

#include "capture/collect/collect.h"
#include "capture/stop/tracers.h"
#include "common/siginfo.h"

namespace cairn::capture {
namespace {

schema::TracedStop stop_of(const Tracee& tracee) {
    switch (tracee.stop) {
        case TraceStop::in_call:
            return schema::TracedStop::in_call;
        case TraceStop::interrupted:
            return schema::TracedStop::interrupted;
        case TraceStop::signal:
            return schema::TracedStop::signal;
        case TraceStop::call_entry:
            return schema::TracedStop::call_entry;
        case TraceStop::call_exit:
            return schema::TracedStop::call_exit;
        case TraceStop::running:
            break;
    }
    return schema::TracedStop::running;
}

}  // namespace

void add_tracing(const StoppedProcess& process, const Tracers& tracers, const ToProgram& to_program,
                 schema::Process& image) {
    for (std::size_t i = 0; i < process.threads.size(); ++i) {
        const auto found = tracers.tracing_of(process.threads[i].tid);
        if (!found) continue;
        const auto& [tracer, tracee] = *found;
        schema::Tracing tracing;
        tracing.tracer = to_program(KernelId(tracer.pid));
        tracing.tracer_thread = to_program(KernelId(tracer.tid));
        tracing.seized = tracee.seized != 0;
        tracing.options = tracee.options;
        tracing.resume = tracee.resume;
        tracing.stop = stop_of(tracee);
        tracing.told = tracee.told != 0;
        tracing.info.assign(std::begin(tracee.info), std::end(tracee.info));
        translate_sender<KernelId>(tracing.info, to_program);
        tracing.debug_registers.assign(std::begin(tracee.debug), std::end(tracee.debug));
        if (tracee.held == 2) {
            siginfo_t stop = {};
            stop.si_signo = SIGSTOP;
            stop.si_code = SI_TKILL;
            stop.si_pid = tracing.tracer.number();
            const auto* begin = reinterpret_cast<const std::uint8_t*>(&stop);
            image.threads[i].pending.emplace_back(begin, begin + sizeof stop);
        }
        image.threads[i].tracing = std::move(tracing);
    }
}

}  // namespace cairn::capture
