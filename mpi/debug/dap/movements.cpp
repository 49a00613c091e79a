// Forward and back. A movement is answered before it is made; the event `stopped` says that it is done.
#include <utility>

#include "mpi/debug/dap/session.h"

namespace cairn::mpi::debug::dap {

// Threads are numbered from 1: some editors take 0 for none.
Result<Process> Session::rank_in(const json& arguments) {
    const auto thread = arguments.value("threadId", std::int64_t{world().focus()} + 1);
    if (thread < 1 || thread > std::int64_t{world().ranks()})
        return fail_code(ExitCode::usage, "thread {}: the ranks are threads 1 to {}", thread,
                         world().ranks());
    return static_cast<Process>(thread - 1);
}

Result<Session::json> Session::move(State to, const std::string& reason, const std::string& said) {
    then_ = [this, to, reason, said] {
        release_ranks();
        const auto moved = world().go(to);
        if (moved) return stopped(reason, said);
        // Everybody stands where they stood.
        paused_ = interrupted != 0;
        stopped(paused_ ? "pause" : reason, moved.error().what);
    };
    return json::object();
}

Result<Session::json> Session::step(const json& arguments) {
    const Process rank = TRY(rank_in(arguments));
    const State from = world().state(rank), to = world().moves().step(from, 1);
    return move(to, "step", to == from ? "this is its end" : "");
}

Result<Session::json> Session::step_back(const json& arguments) {
    const Process rank = TRY(rank_in(arguments));
    const State from = world().state(rank);
    return move(world().step_back(from, 1), "step",
                from == world().first(rank) ? "this is its beginning" : "");
}

Result<Session::json> Session::go_on(const json& arguments) {
    const Process rank = TRY(rank_in(arguments));
    const Moves& moves = world().moves();
    const auto to = moves.next(world().state(rank), break_places());
    CHECK_OK(error_of(to ? move(*to, "breakpoint")
                         : move(moves.behind(rank, moves.calls(rank)), "end",
                                "the end of this rank: no breakpoint comes before it")));
    return json{{"allThreadsContinued", true}};
}

Result<bool> Session::back_to_change(State limit) {
    std::optional<State> best;
    std::string said;
    const State from = here();
    for (const std::string& expression : watched_) {
        auto answer = commands_->execute("watch " + expression);
        if (!answer) {
            channel_.print("console", fmt::format("{}: {}\n", expression, answer.error().what));
            continue;
        }
        const State at = here();
        CHECK_OK(world().go(from));
        if (at.position < limit.position || (best && at.position <= best->position)) continue;
        best = at;
        said = answer->json.value("said", "");
    }
    if (!best) return false;
    CHECK_OK(world().go(*best));
    stopped("data breakpoint", said);
    return true;
}

Result<Session::json> Session::reverse_go_on(const json& arguments) {
    const Process rank = TRY(rank_in(arguments));
    const auto before = world().previous(world().state(rank), break_places());
    const State to = before.value_or(world().first(rank));
    CHECK_OK(error_of(move(to, before ? "breakpoint" : "end",
                           before ? "" : "the beginning of this rank: no breakpoint comes behind it")));
    if (watched_.empty()) return json::object();
    then_ = [this, rank, to, otherwise = std::exchange(then_, nullptr)] {
        world().look_at(rank);
        const auto found = back_to_change(to);
        if (!found)
            stopped("pause", found.error().what);
        else if (!*found)
            otherwise();
    };
    return json::object();
}

Result<Session::json> Session::go_to(const json& arguments) {
    const auto target = arguments.at("targetId").get<std::size_t>();
    if (target >= targets_.size()) return fail_code(ExitCode::usage, "there is no target {}", target);
    return move(targets_[target], "goto");
}

Result<Session::json> Session::restart(const json&) {
    return move(world().first(world().focus()), "entry");
}

// What it was to interrupt has been given up already, and said so, or was over.
Result<Session::json> Session::pause(const json&) {
    if (!std::exchange(paused_, false)) then_ = [this] { stopped("pause"); };
    return json::object();
}

}  // namespace cairn::mpi::debug::dap
