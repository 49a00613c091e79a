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
std::string describe_missing(const Json& event, const std::string& directory) {
    std::string text =
        fmt::format("{} of {} processes are here", event.value("have", 0), event.value("np", 0));
    for (const auto& part : event.value("missing", Json::array()))
        text += fmt::format(
            "; part {} ({}, started on {} {}) is missing: cairn restart --part {} {}",
            part.value("number", 0), human_count(part.value("processes", 0U), "process", "processes"),
            part.value("host", ""), part.value("terminal", ""), part.value("number", 0), directory);
    return text;
}

}  // namespace

Result<> Meeting::arrive(Json join, const Json& members, std::optional<int> wait_seconds) {
    CHECK_OK(send_in_pieces(std::move(join), "members", members));
    const Json go = TRY(await("go", wait_seconds));
    places_ = go.value("parts", Json::array());
    return {};
}

Result<Json> Meeting::exchange_links(const Json& ends) {
    CHECK_OK(send_in_pieces({{"verb", "restart-links"}}, "ends", ends));
    // Another part may wait for a port, a minute long; if it goes the coordinator says so.
    constexpr int patience_seconds = 180;
    Json others = Json::array();
    for (bool more = true; more;) {
        auto event = await("links", patience_seconds);
        if (!event) return std::unexpected(std::move(event.error()).in("connections to other parts"));
        for (const auto& end : event->value("ends", Json::array())) others.push_back(end);
        more = event->value("more", false);
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

Result<> Meeting::await_release(const Json& members) {
    CHECK_OK(send_in_pieces({{"verb", "restart-ready"}}, "members", members));
    CHECK_OK(error_of(await("release", {})));
    return {};
}

// What is too much for one message goes in several, of which all but the last have "more".
Result<> Meeting::send_in_pieces(Json message, const char* list, const Json& all) {
    constexpr std::size_t most = 500;
    for (std::size_t begin = 0; begin < all.size() || begin == 0; begin += most) {
        const auto end = std::min(begin + most, all.size());
        auto& some = message[list] = Json::array();
        for (std::size_t i = begin; i < end; ++i) some.push_back(all[i]);
        if (end < all.size())
            message["more"] = true;
        else
            message.erase("more");
        CHECK_OK(client_.send(message));
        message.erase("parts");  // once is enough
    }
    return {};
}

Result<Json> Meeting::await(const std::string& name, std::optional<int> seconds) {
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
            if (what == name) return std::move(*event);
            if (what == "failed") return std::unexpected(error_of(*event));
            if (what == "waiting") waiting = tell_missing(*event);
        }
        if (seconds && Clock::now() > deadline)
            return fail_code(ExitCode::timed_out, "gave up after {} s: {}", *seconds, waiting);
    }
}

std::string Meeting::tell_missing(const Json& event) const {
    std::string text = describe_missing(event, directory_);
    if (!quiet_ && event.value("have", 0) < event.value("np", 0)) tell("cairn: waiting: {}\n", text);
    return text;
}

}  // namespace cairn::restart
