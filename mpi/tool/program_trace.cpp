#include "mpi/tool/program_trace.h"

#include <algorithm>

namespace cairn::mpi::tool {

using causality::Event;
using causality::Flag;
using causality::Kind;
using causality::Process;

ProgramTrace::ProgramTrace(std::unique_ptr<causality::TraceSource> source, std::vector<std::uint64_t> calls)
    : source_(std::move(source)), rows_(source_->processes()) {
    for (std::size_t p = 0; p < rows_.size(); ++p) rows_[p].most = calls[p];
}

Result<bool> ProgramTrace::next_of_program(Process process, Event& event) {
    for (;;) {
        if (!TRY(source_->next(process, event))) return false;
        if (event.kind != Kind::checkpoint) return true;
    }
}

Result<bool> ProgramTrace::next(Process process, Event& event) {
    Row& row = rows_[process];
    if (row.cut) return false;
    if (row.ahead) {
        event = *row.ahead;
        row.ahead.reset();
    } else if (!TRY(next_of_program(process, event))) {
        return false;
    }
    if (event.kind == Kind::post && event.has(Flag::for_collective)) {
        Event following;
        if (TRY(next_of_program(process, following))) {
            const bool same = following.kind == Kind::collective && following.has(Flag::joined) &&
                              following.request == event.request;
            if (same) {
                row.unused.push_back(event.request);
                const bool joined = event.has(Flag::joined);
                event = following;
                event.request = 0;
                if (!joined) event.flags &= static_cast<std::uint8_t>(~Flag::joined);
            } else {
                row.ahead = following;
            }
        }
    }
    if (event.request != 0)
        event.request -= static_cast<std::uint32_t>(
            std::lower_bound(row.unused.begin(), row.unused.end(), event.request) - row.unused.begin());
    if (!event.has(Flag::joined) && ++row.calls > row.most) {
        row.cut = true;
        return false;
    }
    return true;
}

}  // namespace cairn::mpi::tool
