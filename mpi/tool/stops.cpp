#include "mpi/tool/stops.h"

#include <unistd.h>

#include "causality/trace_reader.h"

namespace cairn::mpi::tool {

using causality::Computation;
using causality::Cut;
using causality::Event;
using causality::Index;
using causality::Kind;
using causality::Process;
using causality::Shape;

Result<causality::Computation> trace_of_job(const std::string& folder, int ranks) {
    std::vector<std::string> files;
    for (int rank = 0; rank < ranks; ++rank) {
        files.push_back(fmt::format("{}/trace.{}", folder, rank));
        if (::access(files.back().c_str(), F_OK) != 0)
            return fail("there is no {}. Make it once: mpiexec -n {} cairn mpi replay --trace {} {} PROGRAM",
                        files.back(), ranks, folder, folder);
    }
    const auto source = TRY(causality::TraceReader::open(files));
    causality::MemoryTrace trace(source->processes());
    for (std::size_t i = 1; i < source->places().size(); ++i)
        static_cast<void>(trace.place(source->places()[i]));
    for (const auto& each : source->communicators()) trace.communicator(each);
    for (Process p = 0; p < trace.processes(); ++p) {
        Event event;
        for (;;) {
            const auto more = TRY(source->next(p, event));
            if (!more) break;
            if (event.kind == Kind::collective) {
                event.shape = Shape::all;
                event.peer = causality::none;
            }
            trace.append(p, event);
        }
        trace.set_ended(p, source->ended(p));
    }
    return causality::Computation::load(trace);
}

std::string stops_of(const Computation& c, const Cut& cut) {
    std::string stops;
    for (Process p = 0; p < c.processes(); ++p) {
        bool enter = false;
        if (cut[p] < c.size(p)) {
            const Index next = c.first(p) + cut[p];
            // A non-blocking one has been entered before, unless it is all in one call (several threads).
            if (c.event(next).kind == Kind::collective &&
                (c.event(next).request == 0 || c.event(next).has(causality::Flag::joined)))
                for (const Index member : c.group(next).members)
                    enter = enter || c.id(member).position < cut[c.id(member).process];
        }
        stops += fmt::format("{}{}{}", p > 0 ? "," : "", cut[p], enter ? "+" : "");
    }
    return stops;
}

}  // namespace cairn::mpi::tool
