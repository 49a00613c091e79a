// At a call for any of several requests: which of them could have been complete before the one that it got.
#pragma once

#include "mpi/debug/history.h"
#include "mpi/debug/moves.h"

namespace cairn::mpi::debug {

struct OtherRequest {
    int index = -1;             // among the call's requests
    std::uint32_t request = 0;  // the trace's number of it
    Index opened = causality::none, closed = causality::none;
    std::string hindrance;  // why it can't be tried, or nothing
};

struct RequestChoice {
    std::uint64_t call = 0;
    Index got = causality::none;  // the first that the call completed
    std::vector<OtherRequest> others;
};

// The next such call of the rank that `history` is of, which stands at `from`, before `limit`: a copy of the
// rank is asked which requests a call has. Nothing: there is none.
[[nodiscard]] Result<std::optional<RequestChoice>> next_request_choice(History& history, const Moves& moves,
                                                                       State from, Position limit);

}  // namespace cairn::mpi::debug
