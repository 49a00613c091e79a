// Runs cairn-capture and listens to it until it is done, has failed, or is late.
#include "coordinator/capture_run.h"

#include <algorithm>

#include "common/human.h"
#include "common/schema/json.h"
#include "coordinator/elsewhere.h"
#include "coordinator/publish.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using CaptureClock = Worker::Clock;

namespace {

constexpr auto looking_pause = 500ms;  // between looks whether the capture is stopped

// ": 123 (bash): in vfork, 124 (cat): in exec"
std::string listed(const std::vector<std::string>& waiting) {
    std::string text;
    for (const std::string& who : waiting) text += (text.empty() ? ": " : ", ") + who;
    return text;
}

}  // namespace

void CaptureRun::interrupt() {
    if (worker_ != nullptr) worker_->interrupt();
}

void CaptureRun::say(const wire::PassedBarrier& answer) {
    if (worker_ != nullptr) worker_->say(pack(answer));
}

asio::awaitable<Result<Captured>> CaptureRun::take(const CaptureOrder& order,
                                                   const std::function<void(const Json&)>& heard) {
    auto attempt = std::make_unique<Attempt>(regions_, registry_);
    auto marks = registry_.take_marks();
    if (!order.track_mem) marks.clear();
    std::vector<wire::MarksOf> marks_told;
    std::vector<Fd> userfaults;
    for (auto& each : marks) {
        marks_told.push_back(each.of);
        userfaults.push_back(std::move(each.userfault));
    }
    const wire::CaptureRequest request{.region = session_.region(),
                                       .directory = order.directory,
                                       .cid = order.cid,
                                       .session = session_.name,
                                       .host = order.host,
                                       .external = order.external,
                                       .landlock = order.landlock,
                                       .files = order.files,
                                       .with = order.with,
                                       .compress = order.compress,
                                       .regions = regions_of_others(regions_),
                                       .members = members_told(registry_),
                                       .marks = std::move(marks_told),
                                       .generation = static_cast<std::int32_t>(order.generation),
                                       .deadline_ms = order.standing.count(),
                                       .capture = attempt->capture(),
                                       .self_contained = order.self_contained,
                                       .track_mem = order.track_mem,
                                       .without_strangers = order.without_strangers,
                                       .hold = order.hold,
                                       .joint = order.joint};
    auto started = Worker::start(io_, capture_program(), pack(request), std::move(userfaults));
    if (!started) co_return std::unexpected(started.error());
    Captured captured;
    captured.held = std::move(*started);
    Worker& worker = *captured.held;
    worker_ = &worker;
    if (!given_up_.empty()) worker.interrupt();
    Course course;
    Result<wire::CaptureDone> said = co_await listen(worker, order, course, heard);
    worker_ = nullptr;
    if (said) keep_marks(said->marks, std::move(worker.descriptors));
    if (said && (order.hold || !order.joint)) {
        captured.said = std::move(*said);
        if (!order.hold) captured.attempt = std::move(attempt);
    } else {
        // One that is late has had its time to notice.
        const std::string last_words = co_await worker.finish(course.overdue ? 0ms : limits_.margin);
        captured.held.reset();
        if (!said) {
            Error why = std::move(said.error());
            if (!last_words.empty()) why.what += " (cairn-capture: " + last_words + ")";
            co_return std::unexpected(std::move(why));
        }
        captured.said = std::move(*said);
    }
    Result<schema::Manifest> manifest = schema::manifest_from_json(captured.said.manifest);
    if (!manifest) {
        if (captured.held) co_await captured.held->finish(limits_.margin);
        co_return std::unexpected(std::move(manifest.error()).in("cairn-capture sent a bad manifest"));
    }
    captured.manifest = std::move(*manifest);
    captured.manifest.generation = static_cast<std::int32_t>(order.generation);
    captured.manifest.pause_ns = captured.said.pause_ns;
    co_return captured;
}

// They count if this becomes the newest generation: the next capture compares the images' ids.
void CaptureRun::keep_marks(const std::vector<wire::MarksOf>& told, std::vector<Fd> userfaults) {
    std::vector<Registry::Marks> marks;
    for (std::size_t i = 0; i < told.size() && i < userfaults.size(); ++i)
        marks.push_back({told[i], std::move(userfaults[i])});
    registry_.keep_marks(std::move(marks));
}

Error CaptureRun::late(const Worker& worker, const CaptureOrder& order, bool by_request,
                       const Course& course) const {
    const auto words = [](std::chrono::milliseconds time) {
        return human_duration(std::chrono::nanoseconds(time).count());
    };
    std::string what;
    if (by_request)
        what = fmt::format("the time limit of {} has passed in phase {}{}", words(*order.timeout),
                           course.phase, course.waiting.empty() ? course.obstacle : course.waiting);
    else if (is_standing(course.phase))
        what = fmt::format("phase {} of cairn-capture ({}) took longer than {}{}", course.phase,
                           worker.describe(), words(order.standing), course.waiting);
    else
        what = fmt::format("nothing was written by cairn-capture ({}) for {}", worker.describe(),
                           words(limits_.no_progress));
    return {std::move(what), 0, ExitCode::timed_out};
}

void CaptureRun::note(const Json& message, const CaptureOrder& order, Course& course) const {
    const std::string event = get_string(message, "event");
    if (event == wire::Phase::name.value) {
        const auto said = wire::glean<wire::Phase>(message);
        course.progress_at = CaptureClock::now();
        // only now do the programs stand still
        if (!is_standing(course.phase) && is_standing(said.phase))
            course.standing_until = CaptureClock::now() + order.standing + limits_.margin;
        course.phase = said.phase;
        course.waiting = listed(said.waiting);
        if (said.phase == wire::phase_again) course.obstacle = course.waiting;
    } else if (event == wire::Progress::name.value) {
        const std::uint64_t bytes = wire::glean<wire::Progress>(message).bytes;
        if (bytes != course.bytes) course.progress_at = CaptureClock::now();
        course.bytes = bytes;
    }
}

asio::awaitable<Result<wire::CaptureDone>> CaptureRun::listen(Worker& worker, const CaptureOrder& order,
                                                              Course& course,
                                                              const std::function<void(const Json&)>& heard) {
    course.progress_at = CaptureClock::now();
    course.standing_until = course.progress_at + order.standing + limits_.margin;
    for (;;) {
        const bool standing = is_standing(course.phase);
        auto deadline = standing ? course.standing_until : course.progress_at + limits_.no_progress;
        const bool by_request = order.timeout && order.begun + *order.timeout < deadline;
        if (by_request) deadline = order.begun + *order.timeout;
        const auto look = std::min(deadline, CaptureClock::now() + looking_pause);
        const Worker::Heard news = co_await worker.listen(look);
        if (news == Worker::Heard::late && CaptureClock::now() < deadline) {
            // The programs mustn't stand still for longer because the capture can't take notice of its limit.
            if (!standing || !worker.is_stopped() ||
                CaptureClock::now() < course.standing_until - limits_.margin)
                continue;
        }
        if (news == Worker::Heard::interrupted)
            co_return fail("{}", given_up_.empty() ? "the checkpoint was given up" : given_up_);
        if (news == Worker::Heard::end)
            co_return fail("cairn-capture ended in phase {} without an answer", course.phase);
        if (news == Worker::Heard::late) {
            course.overdue = !by_request;
            co_return std::unexpected(late(worker, order, by_request, course));
        }
        const Json& message = worker.message;
        const std::string event = get_string(message, "event");
        if (event == wire::CaptureDone::name.value) {
            auto done = wire::unpack<wire::CaptureDone>(message);
            if (!done) done.error().what = "cairn-capture sent a bad answer: " + done.error().what;
            co_return done;
        }
        if (event == wire::Failed::name.value) {
            Error why = error_of(wire::glean<wire::Failed>(message));
            if (!message.contains("reason")) why.what = "cairn-capture gave no reason";
            co_return std::unexpected(std::move(why));
        }
        note(message, order, course);
        heard(message);
    }
}

Room room_for(const Registry& registry, const std::string& root) {
    Room room{root};
    for (const auto& [place, member] : registry.members()) room.needed += memory_to_save(member.pid);
    return room;
}

std::string Room::figures() const {
    return fmt::format("{} has {} free, the checkpoint needs up to {}", root,
                       human_bytes(free_space(root).value_or(0)), human_bytes(needed));
}

Result<> Room::check() const {
    const auto space = free_space(root);
    if (space && *space < needed) return fail("not enough space: {}", figures());
    return {};
}

asio::awaitable<void> prune_old(asio::thread_pool& disk, const std::string& root, const std::string& cid,
                                std::uint32_t keep, const std::vector<std::string>& in_use) {
    if (keep == 0) co_return;
    using Pruned = decltype(prune({}, {}, {}, {}));
    const std::function<Pruned()> pruning = [&] { return prune(root, cid, keep, in_use); };
    co_await elsewhere(disk, pruning);
}

}  // namespace cairn::coordinator
