#include "coordinator/checkpointer.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <functional>
#include <optional>

#include "common/human.h"
#include "common/schema/json.h"
#include "common/uid.h"
#include "coordinator/attempt.h"
#include "coordinator/elsewhere.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Clock = Worker::Clock;

namespace {

constexpr auto looking_pause = 500ms;  // between looks whether the capture is stopped

std::uint64_t number(const Json& json, const char* key) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(get_number(json, key), 0));
}

}  // namespace

Checkpointer::Checkpointer(Surroundings surroundings, CheckpointLimits limits)
    : s_(std::move(surroundings)), limits_(limits) {}

void Checkpointer::ask(const CheckpointOrder& order, Sink sink) {
    if (current_ && current_->open && current_->order == order) {
        current_->sinks.push_back(std::move(sink));
        return;
    }
    const auto same =
        std::find_if(queue_.begin(), queue_.end(), [&order](const auto& job) { return job->order == order; });
    if (current_)
        sink({{"event", "queued"}, {"reason", "a checkpoint is under way; the next one follows it"}}, false);
    if (same != queue_.end()) {
        (*same)->sinks.push_back(std::move(sink));
        return;
    }
    auto job = std::make_shared<Job>();
    job->order = order;
    job->sinks.push_back(std::move(sink));
    queue_.push_back(std::move(job));
    start_next();
}

void Checkpointer::start_next() {
    if (current_ || queue_.empty()) return;
    current_ = queue_.front();
    queue_.pop_front();
    given_up_.clear();
    asio::co_spawn(s_.io, run(current_), asio::detached);
}

void Checkpointer::give_up(const std::string& reason) {
    if (!current_) return;
    given_up_ = reason;
    for (const auto& job : queue_)
        tell(*job, {{"event", "failed"}, {"code", static_cast<int>(ExitCode::failed)}, {"reason", reason}});
    queue_.clear();
    if (worker_ != nullptr) worker_->interrupt();
    if (joint_) joint_->give_up(reason);
}

Json Checkpointer::status() const {
    if (!current_) return nullptr;
    return {{"phase", current_->phase},
            {"bytes", current_->bytes},
            {"total", current_->total},
            {"generation", current_->generation},
            {"directory", current_->directory}};
}

void Checkpointer::tell(Job& job, const Json& event, bool droppable) {
    for (const Sink& sink : job.sinks) sink(event, droppable);
    s_.everybody(event, droppable);
}

void Checkpointer::enter(Job& job, const char* phase) {
    job.phase = phase;
    tell(job, {{"event", "phase"},
               {"name", phase},
               {"waiting", Json::array()},
               {"generation", job.generation},
               {"directory", job.directory}});
}

asio::awaitable<void> Checkpointer::run(std::shared_ptr<Job> job) {
    Result<Json> result;
    try {
        result = co_await take(*job);
    } catch (const std::exception& problem) {
        // bad_alloc or a thing of the system's: this checkpoint is lost, the coordinator is not.
        result = fail("{}", problem.what());
    }
    if (result) {
        tell(*job, *result);
    } else {
        tell(*job, {{"event", "failed"},
                    {"code", static_cast<int>(result.error().code)},
                    {"reason", result.error().what}});
    }
    current_.reset();
    asio::post(s_.io, [this] {
        start_next();
        if (!current_ && s_.idle) s_.idle();
    });
}

Result<> Checkpointer::check_members() const {
    if (s_.group.state() == Group::State::restarting)
        return fail_code(ExitCode::refused, "a restart is pending; a checkpoint can be taken when it runs");
    if (s_.registry.members().empty())
        return fail_code(ExitCode::refused, "no program runs in session {}", s_.session.name);
    return check_saveable(s_.registry);
}

asio::awaitable<Result<Json>> Checkpointer::take(Job& job) {
    const auto begun = Clock::now();
    enter(job, "prepare");
    // Those who ask in the same moment join.
    co_await asio::post(s_.io, asio::use_awaitable);
    if (s_.hosts.members() > 0) co_return co_await take_jointly(job);
    co_await wait_for_births(s_.io, s_.registry);
    Result<> fine = check_members();
    if (!fine) co_return std::unexpected(fine.error());

    const std::function<Result<Partial>()> beginning = [root = job.order.ckptdir, cid = s_.group.cid()] {
        return begin_checkpoint(root, cid);
    };
    Result<Partial> made = co_await elsewhere(disk_, beginning);
    if (!made) co_return std::unexpected(made.error());
    struct Cleaner {
        Partial partial;
        bool published = false;
        ~Cleaner() {
            if (!published) abandon(partial);
        }
    } folder{std::move(*made)};
    job.generation = folder.partial.generation;
    job.directory = folder.partial.final();

    std::uint64_t needed = 0;
    for (const auto& [index, member] : s_.registry.members()) needed += memory_to_save(member.pid);
    const Result<std::uint64_t> space = free_space(job.order.ckptdir);
    const auto figures = [&] {
        return fmt::format("{} has {} free, the checkpoint needs up to {}", job.order.ckptdir,
                           human_bytes(free_space(job.order.ckptdir).value_or(0)), human_bytes(needed));
    };
    if (space && *space < needed) co_return fail("not enough space: {}", figures());
    if (!given_up_.empty()) co_return fail("{}", given_up_);

    fine = check_members();  // the disk may have taken its time
    if (!fine) co_return std::unexpected(fine.error());
    s_.registry.scan();
    job.open = false;
    Attempt attempt(s_.regions, s_.registry);
    const Json members = members_json(s_.registry);
    job.standing = limits_.standing + limits_.standing_each * members.size();
    if (job.order.timeout) job.standing = std::min(job.standing, *job.order.timeout);
    auto started = Worker::start(s_.io, capture_program(),
                                 {{"region", s_.session.region()},
                                  {"regions", regions_json(s_.regions)},
                                  {"directory", folder.partial.partial()},
                                  {"cid", s_.group.cid()},
                                  {"generation", job.generation},
                                  {"session", s_.session.name},
                                  {"deadline_ms", job.standing.count()},
                                  {"capture", attempt.capture()},
                                  {"self_contained", job.order.self_contained},
                                  {"without_strangers", job.order.without_strangers},
                                  {"external", job.order.external},
                                  {"hold", job.order.kill},
                                  {"members", members}});
    if (!started) co_return std::unexpected(started.error());
    Worker& worker = **started;
    worker_ = &worker;
    if (!given_up_.empty()) worker.interrupt();
    Result<Json> captured = co_await listen(job, worker, begun);
    worker_ = nullptr;
    // Who is to be killed stands still until then: nothing is done after the checkpoint that a restart would
    // do again.
    const bool held = captured && job.order.kill;
    std::string last_words;
    // One that is late has had its time to notice.
    if (!held) last_words = co_await worker.finish(job.overdue ? 0ms : limits_.margin);
    if (!captured) {
        std::string reason = captured.error().what;
        if (!last_words.empty()) reason += " (cairn-capture: " + last_words + ")";
        if (reason.find(std::strerror(ENOSPC)) != std::string::npos) reason += "; " + figures();
        co_return std::unexpected(Error{reason, 0, captured.error().code});
    }

    Json manifest_json = captured->value("manifest", Json());
    Result<schema::Manifest> manifest = schema::manifest_from_json(manifest_json);
    if (!manifest)
        co_return std::unexpected(std::move(manifest.error()).in("cairn-capture sent a bad manifest"));
    attempt.release();
    if (manifest->cid.empty()) manifest->cid = s_.group.cid();
    if (manifest->session.empty()) manifest->session = s_.session.name;
    if (manifest->host.empty()) manifest->host = host_name();
    manifest->generation = static_cast<std::int32_t>(job.generation);
    manifest->pause_ns = get_number(*captured, "pause_ns");
    manifest->bytes = number(*captured, "bytes");
    manifest->total_ns = std::chrono::nanoseconds(Clock::now() - begun).count();

    enter(job, "publish");
    using Notes = Result<std::vector<std::string>>;
    const std::function<Notes()> publishing = [&folder, &manifest] {
        return publish(folder.partial, *manifest);
    };
    const Notes notes = co_await elsewhere(disk_, publishing);
    if (!notes) {
        if (held) co_await worker.finish(limits_.margin);  // they go on
        co_return std::unexpected(notes.error());
    }
    folder.published = true;

    Json done = {{"event", "done"},
                 {"code", 0},
                 {"directory", job.directory},
                 {"generation", job.generation},
                 {"cid", manifest->cid},
                 {"processes", manifest->np},
                 {"bytes", manifest->bytes},
                 {"pause_ns", manifest->pause_ns},
                 {"total_ns", std::chrono::nanoseconds(Clock::now() - begun).count()},
                 {"killed", false},
                 {"notes", captured->value("notes", Json::array())}};
    for (const std::string& note : *notes) done["notes"].push_back(note);
    s_.published(done);
    if (job.order.kill) {
        enter(job, "kill");
        done["killed"] = true;
        co_await s_.kill_group();
        co_await worker.finish(limits_.margin);
    }
    const std::uint32_t keep = s_.keep();
    if (keep > 0) {
        enter(job, "prune");
        using Pruned = decltype(prune({}, {}, {}, {}));
        const std::function<Pruned()> pruning = [root = job.order.ckptdir, cid = manifest->cid, keep,
                                                 used = s_.folders_in_use()] {
            return prune(root, cid, keep, used);
        };
        co_await elsewhere(disk_, pruning);
    }
    co_return done;
}

void Checkpointer::relay(Job& job, const Json& message, Clock::time_point writing_since) {
    const std::string event = get_string(message, "event");
    if (event == "phase") {
        job.phase = get_string(message, "name");
        tell(job, {{"event", "phase"},
                   {"name", job.phase},
                   {"waiting", message.value("waiting", Json::array())},
                   {"generation", job.generation},
                   {"directory", job.directory}});
    } else if (event == "progress") {
        job.bytes = number(message, "bytes");
        job.total = number(message, "total");
        const double seconds = std::chrono::duration<double>(Clock::now() - writing_since).count();
        const double rate = seconds > 0.01 ? static_cast<double>(job.bytes) / seconds : 0;
        tell(job,
             {{"event", "progress"},
              {"bytes", job.bytes},
              {"total", job.total},
              {"rate", static_cast<std::uint64_t>(rate)},
              {"last", get_string(message, "last")}},
             true);
    }
}

asio::awaitable<Result<Json>> Checkpointer::listen(Job& job, Worker& worker, Clock::time_point begun) {
    auto standing_until = Clock::now() + job.standing + limits_.margin;
    auto writing_since = Clock::now(), progress_at = Clock::now();
    std::string waiting;
    job.phase = "stop";
    for (;;) {
        const bool standing = is_standing(job.phase);
        auto deadline = standing ? standing_until : progress_at + limits_.no_progress;
        const bool by_request = job.order.timeout && begun + *job.order.timeout < deadline;
        if (by_request) deadline = begun + *job.order.timeout;
        Worker::Heard heard = co_await worker.listen(std::min(deadline, Clock::now() + looking_pause));
        if (heard == Worker::Heard::late && Clock::now() < deadline) {
            // The programs mustn't stand still for longer because the capture can't take notice of its limit.
            if (!standing || !worker.is_stopped() || Clock::now() < standing_until - limits_.margin) continue;
        }
        if (heard == Worker::Heard::interrupted)
            co_return fail("{}", given_up_.empty() ? "the checkpoint was given up" : given_up_);
        if (heard == Worker::Heard::end)
            co_return fail("cairn-capture ended in phase {} without an answer", job.phase);
        if (heard == Worker::Heard::late) {
            if (by_request)
                co_return fail_code(ExitCode::timed_out, "the time limit of {} has passed in phase {}{}",
                                    human_duration(std::chrono::nanoseconds(*job.order.timeout).count()),
                                    job.phase, waiting);
            job.overdue = true;
            if (standing)
                co_return fail_code(ExitCode::timed_out,
                                    "phase {} of cairn-capture ({}) took longer than {}{}", job.phase,
                                    worker.describe(),
                                    human_duration(std::chrono::nanoseconds(job.standing).count()), waiting);
            co_return fail_code(ExitCode::timed_out, "nothing was written by cairn-capture ({}) for {}",
                                worker.describe(),
                                human_duration(std::chrono::nanoseconds(limits_.no_progress).count()));
        }
        const Json& message = worker.message;
        const std::string event = get_string(message, "event");
        if (event == "done") co_return message;
        if (event == "failed")
            co_return std::unexpected(
                Error{get_string(message, "reason", "cairn-capture gave no reason"), 0,
                      static_cast<ExitCode>(std::clamp<std::int64_t>(get_number(message, "code", 1), 1, 6))});
        if (event == "phase") {
            if (get_string(message, "name") == "write") writing_since = Clock::now();
            progress_at = Clock::now();
            // only now do the programs stand still
            if (job.phase == "pages" && get_string(message, "name") != "pages")
                standing_until = Clock::now() + job.standing + limits_.margin;
            waiting.clear();
            for (const Json& who : message.value("waiting", Json::array()))
                if (who.is_string()) waiting += (waiting.empty() ? ": " : ", ") + who.get<std::string>();
        } else if (event == "progress" && number(message, "bytes") != job.bytes) {
            progress_at = Clock::now();
        }
        relay(job, message, writing_since);
    }
}

}  // namespace cairn::coordinator
