// For whom a rank waits whose record ends in a call: what a deadlock is told by.
#include <algorithm>

#include "mpi/interposer/session.h"

namespace cairn::mpi {
namespace {

std::string waits_for(MPI_Comm comm, int peer) {
    const auto& peers = session->tracer->peers(comm);
    if (peer >= 0 && static_cast<std::size_t>(peer) < peers.size())
        return fmt::format("for {}\n", peers[static_cast<std::size_t>(peer)]);
    std::string any;
    if (peer == MPI_ANY_SOURCE)
        for (const causality::Process each : peers)
            if (each != static_cast<causality::Process>(session->rank)) any += fmt::format("any {}\n", each);
    return any;
}

bool waits_for_requests(Fn fn) {
    constexpr Fn those[] = {Fn::Wait, Fn::Waitall, Fn::Waitany, Fn::Waitsome};
    return std::find(std::begin(those), std::end(those), fn) != std::end(those);
}

}  // namespace

std::string what_is_waited_for() {
    Session& s = *session;
    const LastCall& last = s.last;
    std::string text = fmt::format("in {} at {}\n", name(last.fn), causality::describe(locate(last.at)));
    if (last.collective) return text + fmt::format("collective {}\n", s.tracer->number(last.comm));
    if (!waits_for_requests(last.fn)) return text + waits_for(last.comm, last.peer);
    // Which of its requests it is about isn't known here: those that are open.
    s.requests.each([&](const Posted& posted) {
        if (posted.open() && !posted.send && !posted.collective)
            text += waits_for(posted.comm, posted.any_source ? MPI_ANY_SOURCE : posted.source);
    });
    return text;
}

}  // namespace cairn::mpi
