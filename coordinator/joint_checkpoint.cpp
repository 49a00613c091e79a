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
    : order_(std::move(order)), tell_(std::move(tell)), wake_(io) {}

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
    if (index >= sites_.size() || sites_[index].over) return;
    State& state = sites_[index];
    if (const auto heard = hear(state, event); !heard) {
        Error why = heard.error();
        why.what = fmt::format("host {}: {}", state.site.host, why.what);
        state.failed = std::move(why);
        state.over = true;
        wake_.cancel();
    }
}

Result<> JointCheckpoint::hear(State& state, const Json& event) {
    const std::string kind = get_string(event, "event");
    if (kind == wire::Phase::name.value) {
        show_phase(state, TRY(wire::unpack<wire::Phase>(event)));
        return {};
    }
    if (kind == wire::Progress::name.value) {
        show_progress(state, TRY(wire::unpack<wire::Progress>(event)));
        return {};
    }
    if (kind == wire::Failed::name.value || kind == "lost") {
        Error why = error_of(TRY(wire::unpack<wire::Failed>(event)));
        if (kind == "lost") why.what += fmt::format(" (in phase {}{})", state.phase, state.waiting);
        return std::unexpected(std::move(why));
    }
    if (kind == wire::Barrier::name.value) {
        const auto barrier = TRY(wire::unpack<wire::Barrier>(event));
        CHECK_OK(come_to_barrier(state, barrier));
        meet();
    } else if (kind == wire::Finished::name.value) {
        state.over = state.answered = true;
    } else {
        if (kind == wire::Prepared::name.value) state.next = TRY(wire::unpack<wire::Prepared>(event)).next;
        if (kind == wire::CapturedPart::name.value)
            state.captured = TRY(wire::unpack<wire::CapturedPart>(event));
        if (kind == wire::Published::name.value) state.published = TRY(wire::unpack<wire::Published>(event));
        state.phase = kind;
        state.waiting.clear();
        state.answered = true;
    }
    wake_.cancel();
    return {};
}

void JointCheckpoint::show_phase(State& state, const wire::Phase& phase) {
    progress_at_ = Clock::now();
    state.phase = phase.phase;
    state.waiting.clear();
    std::vector<std::string> waiting;
    for (const std::string& who : phase.waiting) {
        state.waiting += (state.waiting.empty() ? ": " : ", ") + who;
        waiting.push_back(state.site.host + ": " + who);
    }
    state.standing = is_standing(state.phase);
    if (state.phase == "write") writing_since_ = Clock::now();
    // A phase is told once, when the first host is in it, and whenever somebody has to wait in it.
    if (state.phase == shown_phase_ && waiting.empty()) return;
    shown_phase_ = state.phase;
    tell_(pack(wire::Phase{.phase = state.phase, .waiting = waiting}), false);
}

void JointCheckpoint::show_progress(State& state, const wire::Progress& progress) {
    if (progress.bytes != state.bytes) progress_at_ = Clock::now();
    state.bytes = progress.bytes;
    state.total = progress.total;
    wire::Progress sum{.last = state.site.host + ": " + progress.last};
    for (const State& each : sites_) {
        sum.bytes += each.bytes;
        sum.total += each.total;
    }
    sum.rate = rate_of(sum.bytes, Clock::now() - writing_since_);
    tell_(pack(sum), true);
}

Result<> JointCheckpoint::come_to_barrier(State& state, const wire::Barrier& barrier) {
    if (barrier.barrier == wire::Stopped::name.value)
        state.stopped = TRY(wire::unpack<wire::Stopped>(barrier.data));
    if (barrier.barrier == wire::HostConnections::name.value)
        state.connections = TRY(wire::unpack<wire::HostConnections>(barrier.data));
    state.barrier = barrier.barrier;
    return {};
}

// When every host has come as far, all are told what the others said.
void JointCheckpoint::meet() {
    const std::string barrier = sites_.front().barrier;
    for (const State& state : sites_)
        if (state.over || state.barrier.empty() || state.barrier != barrier) return;
    auto answers = answers_at(barrier);
    for (std::size_t i = 0; i < sites_.size(); ++i) {
        sites_[i].barrier.clear();
        if (barrier == wire::HostCaptured::name.value) sites_[i].standing = false;
        sites_[i].site.order(pack(wire::Pass{.barrier = barrier, .data = std::move(answers[i])}));
    }
}

std::vector<Json> JointCheckpoint::answers_at(const std::string& barrier) {
    if (barrier == wire::HostConnections::name.value) {
        std::vector<wire::HostConnections> said;
        for (State& state : sites_) said.push_back(std::exchange(state.connections, {}));
        std::vector<Json> answers;
        for (const auto& matched : match_connections(said)) answers.push_back(pack(matched));
        return answers;
    }
    if (barrier == wire::Stopped::name.value) {
        np_ = 0;
        for (const State& state : sites_) np_ += state.stopped.processes;
        const wire::AllStopped all{.np = static_cast<std::int32_t>(np_)};
        return std::vector<Json>(sites_.size(), pack(all));
    }
    return std::vector<Json>(sites_.size(), pack(wire::Nothing{}));
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
        if (writing) until = progress_at_ + order_.limits.no_progress;
        const bool by_request = order_.asked.timeout && begun_ + *order_.asked.timeout < until;
        if (by_request) until = begun_ + *order_.asked.timeout;
        if (Clock::now() >= until) {
            if (by_request)
                co_return fail_code(ExitCode::timed_out, "the time limit of {} has passed: {}",
                                    human_duration(std::chrono::nanoseconds(*order_.asked.timeout).count()),
                                    awaited(condition));
            co_return fail_code(ExitCode::timed_out, "{} takes too long: {}", writing ? "writing" : what,
                                awaited(condition));
        }
        wake_.expires_at(until);
        boost::system::error_code cancelled;
        co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
}

asio::awaitable<Result<>> JointCheckpoint::all_answered(Clock::time_point deadline, const char* what) {
    const Condition answered = [](const State& state) { return state.answered; };
    co_return co_await all(answered, deadline, what);
}

schema::Manifest JointCheckpoint::whole(std::vector<std::int32_t>& bases) const {
    schema::Manifest manifest;
    manifest.cid = order_.cid;
    manifest.session = order_.session;
    manifest.generation = static_cast<std::int32_t>(generation_);
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
        host.addresses = state.captured.addresses.value_or(state.site.addresses);
        manifest.bytes += state.captured.bytes;
        manifest.pause_ns = std::max(manifest.pause_ns, state.captured.pause_ns);
        for (const wire::CapturedTerminal& one : state.captured.parts) {
            auto& part = manifest.parts.emplace_back();
            part.number = ++number;
            part.host = state.site.host;
            part.terminal = one.terminal;
            part.pids = one.pids;
            host.parts.push_back(part.number);
        }
        for (const std::string& note : state.captured.notes)
            manifest.notes.push_back(state.site.host + ": " + note);
    }
    manifest.notes = within_limit(manifest.notes);
    return manifest;
}

asio::awaitable<Result<>> JointCheckpoint::prepare() {
    order_all(pack(wire::Prepare{.ckptdir = order_.asked.ckptdir,
                                 .cid = order_.cid,
                                 .ckptdir_asked_for = order_.asked.ckptdir_asked_for}));
    const Result<> done = co_await all_answered(Clock::now() + preparing, "prepare");
    for (const State& state : sites_) generation_ = std::max(generation_, state.next);
    co_return done;
}

asio::awaitable<Result<>> JointCheckpoint::capture() {
    for (State& state : sites_) {
        state.phase = "stop";
        state.standing = true;
    }
    const auto standing = order_.asked.at_most(order_.standing);
    order_all(pack(wire::CapturePart{.generation = generation_,
                                     .external = order_.asked.external,
                                     .landlock = order_.asked.landlock,
                                     .files = order_.asked.files,
                                     .with = order_.asked.with,
                                     .compress = order_.asked.compress,
                                     .without_strangers = order_.asked.without_strangers,
                                     .self_contained = order_.asked.self_contained,
                                     .track_mem = order_.asked.track_mem,
                                     .hold = order_.asked.kill,
                                     .deadline_ms = standing.count()}));
    co_return co_await all_answered(Clock::now() + standing + order_.limits.margin, "capture");
}

asio::awaitable<Result<>> JointCheckpoint::seal(const schema::Manifest& manifest,
                                                const std::vector<std::int32_t>& bases) {
    const Json place = schema::to_json(manifest);
    for (std::size_t n = 0; n < sites_.size(); ++n) {
        sites_[n].answered = false;
        sites_[n].site.order(pack(wire::Seal{.manifest = place, .part_base = bases[n]}));
    }
    co_return co_await all_answered(Clock::now() + publishing, "publish");
}

// One after the other: hosts may share the folder. The first is the root's own (if it has processes) and
// comes last.
asio::awaitable<Result<>> JointCheckpoint::publish(wire::CheckpointDone& done) {
    for (std::size_t n = sites_.size(); n-- > 0;) {
        State& state = sites_[n];
        state.answered = false;
        state.phase = "publish";
        state.site.order(pack(wire::Publish{}));
        if (auto published = co_await all_answered(Clock::now() + publishing, "publish"); !published)
            co_return published;
        if (!state.published.directory.empty()) done.directory = state.published.directory;
        for (const std::string& note : state.published.notes)
            done.notes.push_back(state.site.host + ": " + note);
    }
    co_return Result<>();
}

// The checkpoint counts, whatever happens.
asio::awaitable<void> JointCheckpoint::finish(wire::CheckpointDone& done) {
    order_all(pack(wire::Finish{.keep = order_.keep}));
    tell_(pack(wire::Phase{.phase = order_.asked.kill ? "kill" : "prune"}), false);
    const auto until = Clock::now() + finishing;
    while (!std::ranges::all_of(sites_, &State::over) && Clock::now() < until) {
        wake_.expires_at(until);
        boost::system::error_code cancelled;
        co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
    for (const State& state : sites_) {
        if (state.failed) done.notes.push_back(state.failed->what);
        if (!state.over)
            done.notes.push_back(fmt::format("host {} didn't say that it has finished", state.site.host));
    }
}

asio::awaitable<Result<wire::CheckpointDone>> JointCheckpoint::conduct() {
    if (auto done = co_await prepare(); !done) co_return std::unexpected(done.error());
    if (auto done = co_await capture(); !done) co_return std::unexpected(done.error());
    std::vector<std::int32_t> bases;
    const schema::Manifest manifest = whole(bases);
    tell_(pack(wire::Phase{.phase = "publish"}), false);
    wire::CheckpointDone done{.cid = order_.cid,
                              .generation = generation_,
                              .processes = manifest.np,
                              .hosts = sites_.size(),
                              .bytes = manifest.bytes,
                              .pause_ns = manifest.pause_ns,
                              .killed = order_.asked.kill,
                              .notes = manifest.notes};
    if (auto sealed = co_await seal(manifest, bases); !sealed) co_return std::unexpected(sealed.error());
    if (auto published = co_await publish(done); !published) co_return std::unexpected(published.error());
    co_await finish(done);
    done.total_ns = std::chrono::nanoseconds(Clock::now() - begun_).count();
    done.notes = within_limit(done.notes);
    co_return done;
}

asio::awaitable<Result<wire::CheckpointDone>> JointCheckpoint::take() {
    Result<wire::CheckpointDone> result = co_await conduct();
    if (!result)
        for (State& state : sites_)
            if (!state.over) state.site.order(pack(wire::GiveUp{.reason = result.error().what}));
    co_return result;
}

}  // namespace cairn::coordinator
