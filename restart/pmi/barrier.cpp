#include "restart/pmi/barrier.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::restart::pmi {

Barrier::Releases Barrier::waits(std::size_t rank) {
    ranks_.at(rank) = State::waiting;
    return open();
}

Barrier::Releases Barrier::enter(std::size_t rank) {
    ranks_.at(rank) = State::in_barrier;
    return open();
}

Barrier::Releases Barrier::finalize(std::size_t rank) {
    ranks_.at(rank) = State::finished;
    Releases releases{{rank, true}};
    for (const Release& more : open()) releases.push_back(more);
    return releases;
}

Barrier::Releases Barrier::left(std::size_t rank) {
    if (ranks_.at(rank) != State::finished && failure_.empty()) {
        failure_ = "has ended without MPI_Finalize";
        exit_code_ = 1;
    }
    ranks_[rank] = State::gone;
    return open();
}

void Barrier::abort(int exit_code) {
    exit_code_ = exit_code;
    failure_ = fmt::format("has aborted the job (exit code {})", exit_code);
}

Barrier::Releases Barrier::open() {
    const auto is = [](State wanted) { return [wanted](State state) { return state == wanted; }; };
    if (std::ranges::any_of(ranks_, is(State::running))) return {};
    // Who is past the last barrier has asked for its end; an unanswered question beside such a rank is that
    // one.
    const bool ending =
        std::ranges::any_of(ranks_, is(State::finished)) || std::ranges::any_of(ranks_, is(State::gone));
    Releases releases;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        State& state = ranks_[rank];
        if (state == State::in_barrier || (state == State::waiting && !ending)) {
            releases.push_back({rank, false});
            state = State::running;
        } else if (state == State::waiting) {
            releases.push_back({rank, true});
            state = State::finished;
        }
    }
    return releases;
}

}  // namespace cairn::restart::pmi
