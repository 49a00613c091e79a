#include "restart/meeting.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/human.h"
#include "restart/tell.h"

namespace cairn::restart {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

// Which parts of a computation the coordinator is waiting for (its event `waiting`), and how to bring them.
std::string describe_missing(const wire::Waiting& waiting, const std::string& directory) {
    std::string text =
        fmt::format("{} of {} here", waiting.have,
                    human_count(static_cast<std::uint64_t>(waiting.np), "process is", "processes are"));
    for (const wire::PartOf& part : waiting.missing)
        text += fmt::format("; part {} ({}, started on {} {}) is missing: cairn restart --part {} {}",
                            part.number,
                            human_count(static_cast<std::uint64_t>(part.processes), "process", "processes"),
                            part.host, part.terminal, part.number, directory);
    return text;
}

}  // namespace

Result<> Meeting::arrive(wire::RestartJoin join, std::optional<int> wait_seconds) {
    CHECK_OK(send_in_pieces(std::move(join), &wire::RestartJoin::members));
    places_ = TRY(await<wire::Go>(wait_seconds)).parts;
    return {};
}

Result<std::vector<wire::PartEnd>> Meeting::exchange_links(std::vector<wire::PartEnd> ends) {
    CHECK_OK(send_in_pieces(wire::RestartLinks{.ends = std::move(ends)}, &wire::RestartLinks::ends));
    // Another part may wait for a port, a minute long; if it goes the coordinator says so.
    constexpr int patience_seconds = 180;
    std::vector<wire::PartEnd> others;
    for (bool more = true; more;) {
        auto links = await<wire::Links>(patience_seconds);
        if (!links) return std::unexpected(std::move(links.error()).in("connections to other parts"));
        std::ranges::move(links->ends, std::back_inserter(others));
        more = links->more;
    }
    return others;
}

Result<> Meeting::still_wanted() {
    if (given_up_) return std::unexpected(*given_up_);
    auto event = client_.next(std::chrono::milliseconds(0));
    if (!event)
        given_up_ = std::move(event.error());
    else if (*event && (**event).value("event", "") == "failed")
        given_up_ = error_of(**event);
    return given_up_ ? Result<>(std::unexpected(*given_up_)) : Result<>();
}

Result<> Meeting::await_release(wire::RestartReady members) {
    CHECK_OK(send_in_pieces(std::move(members), &wire::RestartReady::members));
    CHECK_OK(error_of(await<wire::Release>({})));
    return {};
}

template <class M, class T>
Result<> Meeting::send_in_pieces(M message, std::vector<T> M::*list) {
    constexpr std::size_t most = 500;
    const std::vector<T> all = std::move(message.*list);
    for (std::size_t begin = 0; begin < all.size() || begin == 0; begin += most) {
        const auto end = std::min(begin + most, all.size());
        (message.*list).clear();
        for (std::size_t i = begin; i < end; ++i) (message.*list).push_back(all[i]);
        message.more = end < all.size();
        CHECK_OK(client_.send(pack(message)));
        if constexpr (requires { message.parts; }) message.parts.clear();  // once is enough
    }
    return {};
}

template <class M>
Result<M> Meeting::await(std::optional<int> seconds) {
    const auto deadline = Clock::now() + std::chrono::seconds(seconds.value_or(0));
    std::string waiting = "the coordinator has not said";
    auto heard = Clock::now();
    for (;;) {
        auto event = TRY(client_.next(std::chrono::milliseconds(200)));
        if (event || Clock::now() - heard > CoordinatorClient::unasked) {
            CHECK_OK(event ? Result<>() : client_.ask_whether_alive());
            heard = Clock::now();
        }
        if (event) {
            const auto what = event->value("event", "");
            if (what == M::name.value) return wire::unpack<M>(*event);
            if (what == "failed") return std::unexpected(error_of(*event));
            if (what == "waiting") waiting = tell_missing(*event);
        }
        if (seconds && Clock::now() > deadline)
            return fail_code(ExitCode::timed_out, "gave up after {} s: {}", *seconds, waiting);
    }
}

std::string Meeting::tell_missing(const Json& event) const {
    const auto waiting = wire::glean<wire::Waiting>(event);
    std::string text = describe_missing(waiting, directory_);
    if (!quiet_ && waiting.have < waiting.np) tell("cairn: waiting: {}\n", text);
    return text;
}

}  // namespace cairn::restart
