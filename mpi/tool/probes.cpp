#include "mpi/tool/probes.h"

namespace cairn::mpi::tool {

using causality::Computation;
using causality::Cut;
using causality::Event;
using causality::Index;
using causality::Kind;
using causality::Process;

namespace {

// The send of the message that this probe has found: the one that the next receive with its envelope got
// that was posted behind it; of a probe that took the message away, its own.
Index found_by(const Computation& c, Index probe) {
    const Event& found = c.event(probe);
    const Index end = c.first(c.process_of(probe)) + c.size(c.process_of(probe));
    const auto closing = [&](Index opening) {
        for (Index i = opening + 1; i < end; ++i)
            if (c.event(i).closes() && c.event(i).request == c.event(opening).request) return i;
        return causality::none;
    };
    const auto is_it = [&](Index i) {
        const Event& e = c.event(i);
        return e.kind == Kind::receive && e.peer == found.peer && e.communicator == found.communicator &&
               e.tag == found.tag;
    };
    if (found.kind == Kind::post) {
        const Index receive = closing(probe);
        return receive != causality::none ? c.partner(receive) : causality::none;
    }
    for (Index i = probe + 1; i < end; ++i) {
        Index receive = i;
        if (c.event(i).kind == Kind::post) receive = closing(i);
        if (c.event(i).kind == Kind::receive && c.event(i).request != 0) continue;
        if (receive != causality::none && is_it(receive)) return c.partner(receive);
    }
    return causality::none;
}

}  // namespace

Cut with_probes(const Computation& c, const causality::ClockTable& clocks, Cut cut) {
    Cut looked_at(cut.size());
    for (bool more = true; more;) {
        more = false;
        for (Process p = 0; p < c.processes(); ++p)
            for (; looked_at[p] < cut[p]; ++looked_at[p]) {
                const Index at = c.first(p) + looked_at[p];
                const Event& e = c.event(at);
                if (e.peer == causality::none || (e.kind != Kind::internal && e.kind != Kind::post)) continue;
                // The post of a receive names whom it asks: nothing has come yet.
                if (e.has(causality::Flag::asks)) continue;
                const Index sent = found_by(c, at);
                if (sent == causality::none || c.id(sent).position < cut[c.id(sent).process]) continue;
                cut = causality::join(cut, earliest_after(c, clocks, sent));
                more = true;
            }
    }
    return cut;
}

}  // namespace cairn::mpi::tool
