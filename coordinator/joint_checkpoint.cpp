#include "coordinator/joint_checkpoint.h"

#include <time.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/condense.h"
#include "common/human.h"
#include "common/schema/json.h"
#include "coordinator/attempt.h"
#include "coordinator/publish.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto preparing = 10'000ms, publishing = 60'000ms, finishing = 30'000ms;

}  // namespace

JointCheckpoint::JointCheckpoint(asio::io_context& io, JointOrder order, Tell tell)
    : io_(io), order_(std::move(order)), tell_(std::move(tell)), wake_(io) {}

std::size_t JointCheckpoint::add(Site site) {
    State& state = sites_.emplace_back();
    state.site = std::move(site);
    return sites_.size() - 1;
}

void JointCheckpoint::give_up(const std::string& reason) {
    if (given_up_.empty()) given_up_ = reason;
    wake_.cancel();
}

void JointCheckpoint::report(std::size_t index, const Json& event) {
    if (index >= sites_.size()) return;
    State& state = sites_[index];
    if (state.over) return;
    const std::string kind = get_string(event, "event");
    if (kind == "failed" || kind == "lost") {
        Error why{
            fmt::format("host {}: {}", state.site.host, get_string(event, "reason", "it gave no reason")), 0,
            static_cast<ExitCode>(std::clamp<std::int64_t>(get_number(event, "code", 1), 1, 6))};
        why.passing = get_flag(event, "passing");
        if (kind == "lost") why.what += fmt::format(" (in phase {}{})", state.phase, state.waiting);
        state.failed = std::move(why);
        state.over = true;
    } else if (kind == "barrier") {
        state.barrier = get_string(event, "name");
        state.data = event.value("data", Json::object());
        meet();
    } else if (kind == "phase" || kind == "progress") {
        show(state, event);
        return;
    } else if (kind == "finished") {
        state.over = state.answered = true;
    } else {
        state.captured = event;
        state.phase = kind;
        state.waiting.clear();
        state.answered = true;
    }
    wake_.cancel();
}

void JointCheckpoint::show(const State& known, const Json& event) {
    State& state = const_cast<State&>(known);
    if (get_string(event, "event") == "phase") {
        progress_at_ = Clock::now();
        state.phase = get_string(event, "name");
        state.waiting.clear();
        Json waiting = Json::array();
        for (const Json& who : event.value("waiting", Json::array())) {
            if (!who.is_string()) continue;
            state.waiting += (state.waiting.empty() ? ": " : ", ") + who.get<std::string>();
            waiting.push_back(state.site.host + ": " + who.get<std::string>());
        }
        state.standing = is_standing(state.phase);
        if (state.phase == "write") writing_since_ = Clock::now();
        // A phase is told once, when the first host is in it, and whenever somebody has to wait in it.
        if (state.phase == shown_phase_ && waiting.empty()) return;
        shown_phase_ = state.phase;
        return tell_({{"event", "phase"}, {"name", state.phase}, {"waiting", waiting}}, false);
    }
    if (get_number(event, "bytes") != state.bytes) progress_at_ = Clock::now();
    state.bytes = get_number(event, "bytes");
    state.total = get_number(event, "total");
    std::int64_t bytes = 0, total = 0;
    for (const State& each : sites_) {
        bytes += each.bytes;
        total += each.total;
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - writing_since_).count();
    tell_({{"event", "progress"},
           {"bytes", bytes},
           {"total", total},
           {"rate", seconds > 0.01 ? static_cast<std::int64_t>(static_cast<double>(bytes) / seconds) : 0},
           {"last", state.site.host + ": " + get_string(event, "last")}},
          true);
}

// When every host has come as far, all are told what the others said.
void JointCheckpoint::meet() {
    const std::string& name = sites_.front().barrier;
    for (const State& state : sites_)
        if (state.over || state.barrier.empty() || state.barrier != name) return;
    const std::string barrier = name;
    std::vector<Json> answers;
    if (barrier == "connections") {
        std::vector<Json> said;
        for (const State& state : sites_) said.push_back(state.data);
        answers = match_connections(said);
    } else if (barrier == "stopped") {
        np_ = 0;
        for (const State& state : sites_) np_ += get_number(state.data, "processes");
        answers.assign(sites_.size(), {{"np", np_}});
    } else {
        answers.assign(sites_.size(), Json::object());
    }
    for (std::size_t i = 0; i < sites_.size(); ++i) {
        sites_[i].barrier.clear();
        if (barrier == "captured") sites_[i].standing = false;
        sites_[i].data = nullptr;
        sites_[i].site.order({{"do", "pass"}, {"name", barrier}, {"data", std::move(answers[i])}});
    }
}

void JointCheckpoint::order_all(const Json& order) {
    for (State& state : sites_) {
        state.answered = false;
        if (!state.over) state.site.order(order);
    }
}

std::string JointCheckpoint::awaited(const Condition& condition) const {
    std::string text;
    for (const State& state : sites_) {
        if (condition(state)) continue;
        if (!text.empty()) text += "; ";
        text += fmt::format("host {} is in phase {}{}{}", state.site.host, state.phase,
                            state.barrier.empty() ? "" : " and waits for the others", state.waiting);
    }
    return text;
}

asio::awaitable<Result<>> JointCheckpoint::all(const Condition& condition, Clock::time_point deadline,
                                               const char* what) {
    for (;;) {
        if (!given_up_.empty()) co_return fail("{}", given_up_);
        for (const State& state : sites_)
            if (state.failed) co_return std::unexpected(*state.failed);
        if (std::all_of(sites_.begin(), sites_.end(), condition)) co_return Result<>();
        auto until = deadline;
        // Once nobody stands still any more, bytes written are what counts.
        const bool standing =
            std::any_of(sites_.begin(), sites_.end(), [](const State& each) { return each.standing; });
        const bool writing = std::string_view(what) == "capture" && !standing;
        if (writing) until = progress_at_ + order_.no_progress;
        const bool by_request = order_.timeout && begun_ + *order_.timeout < until;
        if (by_request) until = begun_ + *order_.timeout;
        if (Clock::now() >= until) {
            if (by_request)
                co_return fail_code(ExitCode::timed_out, "the time limit of {} has passed: {}",
                                    human_duration(std::chrono::nanoseconds(*order_.timeout).count()),
                                    awaited(condition));
            co_return fail_code(ExitCode::timed_out, "{} takes too long: {}", writing ? "writing" : what,
                                awaited(condition));
        }
        wake_.expires_at(until);
        boost::system::error_code cancelled;
        co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
}

schema::Manifest JointCheckpoint::whole(std::uint32_t generation, std::vector<std::int32_t>& bases) const {
    schema::Manifest manifest;
    manifest.cid = order_.cid;
    manifest.session = order_.session;
    manifest.generation = static_cast<std::int32_t>(generation);
    // As the images have it: parts name zombies as well, which join no restart.
    manifest.np = static_cast<std::int32_t>(np_);
    manifest.host = sites_.front().site.host;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    manifest.taken_at_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
    manifest.total_ns = std::chrono::nanoseconds(Clock::now() - begun_).count();
    std::int32_t number = 0;
    for (const State& state : sites_) {
        bases.push_back(number);
        auto& host = manifest.hosts.emplace_back();
        host.name = state.site.host;
        host.folder = folder_of_host(state.site.host);
        host.addresses = state.site.addresses;
        if (const Json known = state.captured.value("addresses", Json()); known.is_array()) {
            host.addresses.clear();
            for (const Json& address : known)
                if (address.is_string()) host.addresses.push_back(address.get<std::string>());
        }
        manifest.bytes += static_cast<std::uint64_t>(get_number(state.captured, "bytes"));
        manifest.pause_ns = std::max(manifest.pause_ns, get_number(state.captured, "pause_ns"));
        for (const Json& one : state.captured.value("parts", Json::array())) {
            auto& part = manifest.parts.emplace_back();
            part.number = ++number;
            part.host = state.site.host;
            part.terminal = get_string(one, "terminal");
            for (const Json& pid : one.value("pids", Json::array()))
                part.pids.push_back(pid.get<std::int32_t>());
            host.parts.push_back(part.number);
        }
        for (const Json& note : state.captured.value("notes", Json::array()))
            if (note.is_string()) manifest.notes.push_back(state.site.host + ": " + note.get<std::string>());
    }
    manifest.notes = condense(manifest.notes);
    return manifest;
}

asio::awaitable<Result<Json>> JointCheckpoint::conduct() {
    const Condition answered = [](const State& state) { return state.answered; };
    order_all({{"do", "prepare"},
               {"ckptdir", order_.ckptdir},
               {"ckptdir_asked_for", order_.ckptdir_asked_for},
               {"cid", order_.cid}});
    if (auto done = co_await all(answered, Clock::now() + preparing, "prepare"); !done)
        co_return std::unexpected(done.error());
    for (const State& state : sites_)
        generation_ =
            std::max(generation_, static_cast<std::uint32_t>(get_number(state.captured, "next", 1)));
    for (State& state : sites_) {
        state.phase = "stop";
        state.standing = true;
    }
    auto standing = order_.standing;
    if (order_.timeout) standing = std::min(standing, *order_.timeout);
    order_all({{"do", "capture"},
               {"generation", generation_},
               {"external", order_.external},
               {"without_strangers", order_.without_strangers},
               {"self_contained", order_.self_contained},
               {"hold", order_.kill},
               {"deadline_ms", standing.count()}});
    if (auto done = co_await all(answered, Clock::now() + standing + order_.margin, "capture"); !done)
        co_return std::unexpected(done.error());

    std::vector<std::int32_t> bases;
    const schema::Manifest manifest = whole(generation_, bases);
    tell_({{"event", "phase"}, {"name", "publish"}, {"waiting", Json::array()}}, false);
    Json notes = manifest.notes;
    std::string directory;
    Json place = schema::to_json(manifest);
    for (std::size_t n = 0; n < sites_.size(); ++n) {
        sites_[n].answered = false;
        sites_[n].captured = nullptr;
        sites_[n].site.order({{"do", "seal"}, {"manifest", place}, {"part_base", bases[n]}});
    }
    if (auto done = co_await all(answered, Clock::now() + publishing, "publish"); !done)
        co_return std::unexpected(done.error());
    // One after the other: hosts may share the folder. The first is the root's own (if it has processes) and
    // comes last.
    for (std::size_t n = sites_.size(); n-- > 0;) {
        State& state = sites_[n];
        state.answered = false;
        state.phase = "publish";
        state.site.order({{"do", "publish"}});
        if (auto done = co_await all(answered, Clock::now() + publishing, "publish"); !done)
            co_return std::unexpected(done.error());
        directory = get_string(state.captured, "directory", directory);
        for (const Json& note : state.captured.value("notes", Json::array()))
            if (note.is_string()) notes.push_back(state.site.host + ": " + note.get<std::string>());
    }
    // From here on it counts, whatever happens.
    order_all({{"do", "finish"}, {"keep", order_.keep}});
    tell_({{"event", "phase"}, {"name", order_.kill ? "kill" : "prune"}, {"waiting", Json::array()}}, false);
    const Condition over = [](const State& state) { return state.over; };
    const auto until = Clock::now() + finishing;
    while (!std::all_of(sites_.begin(), sites_.end(), over) && Clock::now() < until) {
        wake_.expires_at(until);
        boost::system::error_code cancelled;
        co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
    for (const State& state : sites_) {
        if (state.failed) notes.push_back(state.failed->what);
        if (!state.over)
            notes.push_back(fmt::format("host {} didn't say that it has finished", state.site.host));
    }
    co_return Json{{"event", "done"},
                   {"code", 0},
                   {"directory", directory},
                   {"generation", generation_},
                   {"cid", order_.cid},
                   {"processes", manifest.np},
                   {"hosts", sites_.size()},
                   {"bytes", manifest.bytes},
                   {"pause_ns", manifest.pause_ns},
                   {"total_ns", std::chrono::nanoseconds(Clock::now() - begun_).count()},
                   {"killed", order_.kill},
                   {"notes", condense(notes.get<std::vector<std::string>>())}};
}

asio::awaitable<Result<Json>> JointCheckpoint::take() {
    Result<Json> result = co_await conduct();
    if (!result)
        for (State& state : sites_)
            if (!state.over) state.site.order({{"do", "give_up"}, {"reason", result.error().what}});
    co_return result;
}

}  // namespace cairn::coordinator
