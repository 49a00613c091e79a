#include "coordinator/checkpointer.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>

#include "common/human.h"
#include "common/uid.h"
#include "coordinator/attempt.h"
#include "coordinator/elsewhere.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Checkpointer::OpenFolder {
    explicit OpenFolder(Partial made) : partial(std::move(made)) {}
    OpenFolder(const OpenFolder&) = delete;
    OpenFolder& operator=(const OpenFolder&) = delete;
    ~OpenFolder() {
        if (!published) abandon(partial);
    }
    Partial partial;
    bool published = false;
};

Checkpointer::Checkpointer(Surroundings surroundings, CheckpointLimits limits)
    : s_(std::move(surroundings)),
      limits_(limits),
      capture_(s_.io, s_.session, s_.regions, s_.registry, limits_, given_up_) {}

void Checkpointer::ask(const CheckpointOrder& order, Sink sink, Told::Audience audience) {
    const auto join = [&](Job& job) {
        job.sinks.push_back(std::move(sink));
        job.audience = std::max(job.audience, audience);
    };
    if (current_ && current_->open && current_->order == order) {
        join(*current_);
        return;
    }
    const auto same =
        std::find_if(queue_.begin(), queue_.end(), [&order](const auto& job) { return job->order == order; });
    if (current_)
        sink({{"event", "queued"}, {"reason", "a checkpoint is under way; the next one follows it"}}, false);
    if (same != queue_.end()) {
        join(**same);
        return;
    }
    auto job = std::make_shared<Job>();
    job->order = order;
    join(*job);
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
    for (const auto& job : queue_) tell(*job, failed(ExitCode::failed, reason));
    queue_.clear();
    capture_.interrupt();
    if (joint_) joint_->give_up(reason);
}

std::optional<wire::UnderWay> Checkpointer::status() const {
    if (!current_ || current_->ending) return {};
    return wire::UnderWay{.phase = current_->phase,
                          .directory = current_->directory,
                          .bytes = current_->bytes,
                          .total = current_->total,
                          .generation = current_->generation};
}

void Checkpointer::tell(Job& job, const Json& event, bool droppable) {
    for (const Sink& sink : job.sinks) sink(event, droppable);
    s_.everybody(event, droppable);
}

void Checkpointer::show(Job& job, const std::string& phase, const std::vector<std::string>& waiting) {
    job.phase = phase;
    tell(job,
         pack(wire::Phase{
             .phase = phase, .waiting = waiting, .generation = job.generation, .directory = job.directory}));
}

asio::awaitable<void> Checkpointer::run(std::shared_ptr<Job> job) {
    Result<wire::CheckpointDone> result;
    try {
        result = co_await take(*job);
    } catch (const std::exception& problem) {
        // bad_alloc or a thing of the system's: this checkpoint is lost, the coordinator is not.
        result = fail("{}", problem.what());
    }
    if (result) result->news = told_.news(result->notes, job->audience);
    tell(*job, result ? pack(*result) : failed(result.error()));
    // Its copies of the programs' memory have gone by the time that it has, and nothing else begins before.
    try {
        if (job->ending) co_await job->ending->held->finish(limits_.margin);
    } catch (const std::exception&) {
        job->ending->held.reset();  // it is killed
    }
    job->ending.reset();
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

// `cairn launch PROGRAM & cairn checkpoint`: the program has been told yes, or is about to ask. After `cairn
// restart &` programs go on a moment before the restart says so.
asio::awaitable<void> Checkpointer::wait_for_first() {
    constexpr auto about_to_ask = 1s, starting = 5s;
    asio::steady_timer timer(s_.io);
    const auto now = Clock::now();
    const auto nobody_yet = [&] {
        return s_.registry.members().empty() && s_.hosts.members() == 0 &&
               Clock::now() < std::max(s_.group.starting() > 0 ? now + starting : now, begun_ + about_to_ask);
    };
    const auto restarting = [&] {
        return s_.group.state() == Group::State::restarting && Clock::now() < now + starting;
    };
    while (nobody_yet() || restarting()) {
        timer.expires_after(10ms);
        boost::system::error_code error;
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
        s_.registry.scan();
    }
}

asio::awaitable<Result<wire::CheckpointDone>> Checkpointer::take(Job& job) {
    job.begun = Clock::now();
    show(job, "prepare");
    // Those who ask in the same moment join.
    co_await asio::post(s_.io, asio::use_awaitable);
    co_await wait_for_first();
    // The program that was waited for may have named the folder.
    if (!job.order.ckptdir_asked_for) job.order.ckptdir = s_.ckptdir();
    if (s_.hosts.members() > 0) co_return co_await take_jointly(job);
    co_return co_await take_alone(job);
}

asio::awaitable<Result<wire::CheckpointDone>> Checkpointer::take_alone(Job& job) {
    co_await wait_for_births(s_.io, s_.registry);
    s_.registry.provide_for_kin();
    Result<> fine = check_members();
    if (!fine) co_return std::unexpected(fine.error());

    const std::function<Result<Partial>()> beginning = [root = job.order.ckptdir, cid = s_.group.cid()] {
        return begin_checkpoint(root, cid);
    };
    Result<Partial> made = co_await elsewhere(disk_, beginning);
    if (!made) co_return std::unexpected(made.error());
    OpenFolder folder(std::move(*made));
    job.generation = folder.partial.generation;
    job.directory = folder.partial.final();

    const Room room = room_for(s_.registry, job.order.ckptdir);
    fine = room.check();
    if (!fine) co_return std::unexpected(fine.error());
    if (!given_up_.empty()) co_return fail("{}", given_up_);
    fine = check_members();  // the disk may have taken its time
    if (!fine) co_return std::unexpected(fine.error());
    s_.registry.scan();
    job.open = false;

    CaptureOrder order;
    order.directory = folder.partial.partial();
    order.cid = s_.group.cid();
    order.generation = job.generation;
    order.self_contained = job.order.self_contained;
    order.track_mem = job.order.track_mem;
    order.without_strangers = job.order.without_strangers;
    order.hold = job.order.kill;
    order.external = job.order.external;
    order.landlock = job.order.landlock;
    order.files = job.order.files;
    order.with = job.order.with;
    order.compress = job.order.compress;
    order.timeout = job.order.timeout;
    order.begun = job.begun;
    order.standing = job.order.at_most(limits_.for_all(s_.registry.members().size()));
    job.phase = "stop";
    job.writing_since = Clock::now();
    const std::function<void(const Json&)> heard = [this, &job](const Json& message) { relay(job, message); };
    Result<Captured> captured = co_await capture_.take(order, heard);
    if (!captured) {
        std::string reason = captured.error().what;
        if (reason.find(std::strerror(ENOSPC)) != std::string::npos) reason += "; " + room.figures();
        co_return std::unexpected(Error{reason, 0, captured.error().code});
    }
    co_return co_await publish_alone(job, folder, *captured);
}

asio::awaitable<Result<wire::CheckpointDone>> Checkpointer::publish_alone(Job& job, OpenFolder& folder,
                                                                          Captured& captured) {
    schema::Manifest& manifest = captured.manifest;
    if (manifest.cid.empty()) manifest.cid = s_.group.cid();
    if (manifest.session.empty()) manifest.session = s_.session.name;
    if (manifest.host.empty()) manifest.host = host_name();
    manifest.bytes = captured.said.bytes;
    manifest.total_ns = std::chrono::nanoseconds(Clock::now() - job.begun).count();

    show(job, "publish");
    using Notes = Result<std::vector<std::string>>;
    const std::function<Notes()> publishing = [&folder, &manifest] {
        return publish(folder.partial, manifest);
    };
    const Notes notes = co_await elsewhere(disk_, publishing);
    if (!notes) {
        if (captured.held) co_await captured.held->finish(limits_.margin);  // they go on
        co_return std::unexpected(notes.error());
    }
    folder.published = true;

    wire::CheckpointDone done{
        .directory = job.directory,
        .cid = manifest.cid,
        .generation = job.generation,
        .processes = manifest.np,
        .bytes = manifest.bytes,
        .pause_ns = manifest.pause_ns,
        .total_ns = std::chrono::nanoseconds(Clock::now() - job.begun).count(),
        .notes = captured.said.notes,
    };
    done.notes.insert(done.notes.end(), notes->begin(), notes->end());
    s_.published(done);
    if (job.order.kill) {
        show(job, "kill");
        done.killed = true;
        co_await s_.kill_group();
        co_await captured.held->finish(limits_.margin);
        captured.held.reset();
    }
    if (const std::uint32_t keep = s_.keep(); keep > 0) {
        show(job, "prune");
        const auto used = s_.folders_in_use();
        co_await prune_old(disk_, job.order.ckptdir, manifest.cid, keep, used);
    }
    if (captured.held) job.ending = std::move(captured);
    co_return done;
}

void Checkpointer::relay(Job& job, const Json& message) {
    const std::string event = get_string(message, "event");
    if (event == wire::Phase::name.value) {
        const auto said = wire::glean<wire::Phase>(message);
        if (said.phase == "write") job.writing_since = Clock::now();
        show(job, said.phase, said.waiting);
    } else if (event == wire::Progress::name.value) {
        auto progress = wire::glean<wire::Progress>(message);
        job.bytes = progress.bytes;
        job.total = progress.total;
        progress.rate = rate_of(job.bytes, Clock::now() - job.writing_since);
        tell(job, pack(progress), true);
    }
}

}  // namespace cairn::coordinator
