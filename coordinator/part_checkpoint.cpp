#include "coordinator/part_checkpoint.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "common/human.h"
#include "common/schema/json.h"
#include "coordinator/attempt.h"
#include "coordinator/elsewhere.h"
#include "coordinator/network.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto margin = 3'000ms;           // for the worker to notice its deadline itself
constexpr auto no_progress = 120'000ms;    // no byte was written
constexpr auto root_patience = 180'000ms;  // between two orders; a root that is gone is noticed by its link

struct OpenPart {
    PartFolder folder;
    bool kept = false;
    ~OpenPart() {
        if (!kept) abandon_part(folder);
    }
};

}  // namespace

PartCheckpoint::PartCheckpoint(Surroundings surroundings, std::function<void(const Json&)> report)
    : s_(std::move(surroundings)), report_(std::move(report)), wake_(s_.io) {}

void PartCheckpoint::order(const Json& order) {
    const std::string what = get_string(order, "do");
    if (what == "give_up") {
        withdraw_ = true;
        return give_up(get_string(order, "reason", "the root gave the checkpoint up"));
    }
    if (what == "pass") {
        // Straight through: the programs stand still.
        if (worker_ != nullptr)
            worker_->say(
                {{"pass", get_string(order, "name")}, {"data", order.value("data", Json::object())}});
        return;
    }
    orders_.push_back(order);
    wake_.cancel();
    if (!std::exchange(begun_, true))
        asio::co_spawn(
            s_.io,
            [](std::shared_ptr<PartCheckpoint> self) -> asio::awaitable<void> {
                co_await self->run();
            }(shared_from_this()),
            asio::detached);
}

void PartCheckpoint::give_up(const std::string& reason) {
    if (over_) return;
    if (given_up_.empty()) given_up_ = reason;
    wake_.cancel();
    if (worker_ != nullptr) worker_->interrupt();
}

asio::awaitable<void> PartCheckpoint::run() {
    Result<> result;
    try {
        result = co_await take();
    } catch (const std::exception& problem) {
        result = fail("{}", problem.what());
    }
    over_ = true;
    if (result)
        report_({{"event", "finished"}});
    else
        report_({{"event", "failed"},
                 {"code", static_cast<int>(result.error().code)},
                 {"reason", result.error().what},
                 {"passing", result.error().passing}});
}

asio::awaitable<Result<Json>> PartCheckpoint::next(const char* wanted) {
    const auto until = Clock::now() + root_patience;
    while (orders_.empty() && given_up_.empty()) {
        if (Clock::now() > until)
            co_return fail_code(ExitCode::timed_out, "the root said nothing for {} s", 180);
        wake_.expires_at(until);
        boost::system::error_code cancelled;
        co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
    if (!given_up_.empty()) co_return fail("{}", given_up_);
    Json order = std::move(orders_.front());
    orders_.pop_front();
    if (get_string(order, "do") != wanted)
        co_return fail("{} was expected of the root, not {}", wanted, text_of(order));
    co_return order;
}

asio::awaitable<Result<>> PartCheckpoint::take() {
    Result<Json> order = co_await next("prepare");
    if (!order) co_return std::unexpected(order.error());
    const bool asked_for = get_flag(*order, "ckptdir_asked_for") || s_.ckptdir.empty();
    const std::string root = asked_for ? get_string(*order, "ckptdir") : s_.ckptdir,
                      cid = get_string(*order, "cid");
    co_await wait_for_births(s_.io, s_.registry);
    if (Result<> fine = check_saveable(s_.registry); !fine) co_return std::unexpected(fine.error());
    const std::function<std::uint32_t()> asking = [&] { return next_generation(root, cid); };
    const std::uint32_t number = co_await elsewhere(s_.disk, asking);
    report_({{"event", "prepared"}, {"next", number}, {"processes", s_.registry.members().size()}});

    order = co_await next("capture");
    if (!order) co_return std::unexpected(order.error());
    const auto generation = static_cast<std::uint32_t>(get_number(*order, "generation"));
    const std::function<Result<PartFolder>()> beginning = [&] {
        return begin_part(root, cid, generation, s_.host);
    };
    Result<PartFolder> made = co_await elsewhere(s_.disk, beginning);
    if (!made) co_return std::unexpected(made.error());
    OpenPart part{std::move(*made)};
    std::uint64_t needed = 0;
    for (const auto& [index, member] : s_.registry.members()) needed += memory_to_save(member.pid);
    if (const auto space = free_space(root); space && *space < needed)
        co_return fail("not enough space: {} has {} free, the checkpoint needs up to {}", root,
                       human_bytes(*space), human_bytes(needed));
    if (!given_up_.empty()) co_return fail("{}", given_up_);
    s_.registry.scan();
    if (s_.registry.members().empty()) co_return fail("its last process has ended");
    Attempt attempt(s_.regions, s_.registry);
    const Json members = members_json(s_.registry);
    const bool hold = get_flag(*order, "hold");
    const std::chrono::milliseconds standing(get_number(*order, "deadline_ms", 10'000));
    auto started = Worker::start(s_.io, capture_program(),
                                 {{"region", s_.session.region()},
                                  {"regions", regions_json(s_.regions)},
                                  {"directory", part.folder.partial()},
                                  {"cid", cid},
                                  {"generation", generation},
                                  {"session", s_.session.name},
                                  {"deadline_ms", standing.count()},
                                  {"capture", attempt.capture()},
                                  {"self_contained", get_flag(*order, "self_contained")},
                                  {"without_strangers", get_flag(*order, "without_strangers")},
                                  {"external", get_string(*order, "external", "reset")},
                                  {"hold", hold},
                                  {"host", s_.host},
                                  {"joint", true},
                                  {"members", members}});
    if (!started) co_return std::unexpected(started.error());
    Worker& worker = **started;
    worker_ = &worker;
    if (!given_up_.empty()) worker.interrupt();
    Result<Json> captured = co_await listen(worker, standing);
    worker_ = nullptr;
    const bool held = captured && hold;
    std::string last_words;
    if (!held) last_words = co_await worker.finish(margin);
    if (!captured) {
        Error why = captured.error();
        if (!last_words.empty()) why.what += " (cairn-capture: " + last_words + ")";
        co_return std::unexpected(std::move(why));
    }
    // However this ends, who is held must not be left so.
    const auto let_go = [&]() -> asio::awaitable<void> {
        if (held) co_await worker.finish(margin);
    };
    Result<schema::Manifest> manifest = schema::manifest_from_json(captured->value("manifest", Json()));
    if (!manifest) {
        co_await let_go();
        co_return std::unexpected(std::move(manifest.error()).in("cairn-capture sent a bad manifest"));
    }
    attempt.release();
    manifest->generation = static_cast<std::int32_t>(generation);
    manifest->pause_ns = get_number(*captured, "pause_ns");
    Json parts = Json::array();
    for (const auto& one : manifest->parts)
        parts.push_back({{"number", one.number}, {"terminal", one.terminal}, {"pids", one.pids}});
    report_({{"event", "captured"},
             {"bytes", manifest->bytes},
             {"pause_ns", manifest->pause_ns},
             {"processes", manifest->images.size()},
             {"addresses", known_addresses(s_.regions.owners().sockets)},
             {"notes", captured->value("notes", Json::array())},
             {"parts", parts}});

    order = co_await next("seal");
    if (!order) {
        co_await let_go();
        co_return std::unexpected(order.error());
    }
    Result<schema::Manifest> whole = schema::manifest_from_json(order->value("manifest", Json()));
    if (!whole) {
        co_await let_go();
        co_return std::unexpected(std::move(whole.error()).in("the root sent a bad manifest"));
    }
    // Numbers of parts are the computation's; here they began at 1.
    const auto base = static_cast<std::int32_t>(get_number(*order, "part_base"));
    manifest->np = whole->np;
    manifest->parts = whole->parts;
    manifest->hosts = whole->hosts;
    manifest->total_ns = whole->total_ns;
    for (auto& image : manifest->images)
        if (image.part > 0) image.part += base;
    whole->kernel = manifest->kernel;
    whole->cpu_model = manifest->cpu_model;
    whole->cpu_flags = manifest->cpu_flags;
    using Notes = Result<std::vector<std::string>>;
    const std::function<Notes()> publishing = [&]() -> Notes { return publish_part(part.folder, *whole); };
    const std::function<Result<>()> sealing = [&] { return seal_part(part.folder, *manifest); };
    if (const Result<> sealed = co_await elsewhere(s_.disk, sealing); !sealed) {
        co_await let_go();
        co_return std::unexpected(sealed.error());
    }
    report_({{"event", "sealed"}});

    order = co_await next("publish");
    if (!order) {
        co_await let_go();
        co_return std::unexpected(order.error());
    }
    const Notes notes = co_await elsewhere(s_.disk, publishing);
    if (!notes) {
        co_await let_go();
        co_return std::unexpected(notes.error());
    }
    report_({{"event", "published"}, {"notes", *notes}, {"directory", part.folder.whole.final()}});

    order = co_await next("finish");
    if (!order) {
        // A root that was lost may have told everybody else to keep it; a restart refuses generations that
        // don't fit.
        part.kept = !withdraw_;
        co_await let_go();
        co_return std::unexpected(order.error());
    }
    part.kept = true;
    part.folder.whole.lock.reset();
    if (hold) {
        co_await s_.kill_group();
        co_await let_go();
    }
    const auto keep = static_cast<std::uint32_t>(get_number(*order, "keep"));
    if (keep > 0) {
        using Pruned = decltype(prune({}, {}, {}, {}));
        const std::function<Pruned()> pruning = [&, used = s_.folders_in_use()] {
            return prune(root, cid, keep, used);
        };
        co_await elsewhere(s_.disk, pruning);
    }
    co_return Result<>();
}

asio::awaitable<Result<Json>> PartCheckpoint::listen(Worker& worker, std::chrono::milliseconds standing) {
    auto standing_until = Clock::now() + standing + margin;
    auto progress_at = Clock::now();
    std::string phase = "stop", waiting;
    std::int64_t bytes = 0;
    for (;;) {
        const bool still = is_standing(phase);
        const Worker::Heard heard =
            co_await worker.listen(still ? standing_until : progress_at + no_progress);
        if (heard == Worker::Heard::interrupted)
            co_return fail("{}", given_up_.empty() ? "the checkpoint was given up" : given_up_);
        if (heard == Worker::Heard::end)
            co_return fail("cairn-capture ended in phase {} without an answer", phase);
        if (heard == Worker::Heard::late) {
            if (still)
                co_return fail_code(ExitCode::timed_out, "phase {} took longer than {}{}", phase,
                                    human_duration(std::chrono::nanoseconds(standing).count()), waiting);
            co_return fail_code(ExitCode::timed_out, "nothing was written for {}",
                                human_duration(std::chrono::nanoseconds(no_progress).count()));
        }
        const Json& message = worker.message;
        const std::string event = get_string(message, "event");
        if (event == "done") co_return message;
        if (event == "failed") {
            Error why{get_string(message, "reason", "cairn-capture gave no reason"), 0,
                      static_cast<ExitCode>(std::clamp<std::int64_t>(get_number(message, "code", 1), 1, 6))};
            why.passing = get_flag(message, "passing");
            co_return std::unexpected(std::move(why));
        }
        if (event == "phase") {
            progress_at = Clock::now();
            if (phase == "pages" && get_string(message, "name") != "pages")
                standing_until = Clock::now() + standing + margin;
            phase = get_string(message, "name");
            waiting.clear();
            for (const Json& who : message.value("waiting", Json::array()))
                if (who.is_string()) waiting += (waiting.empty() ? ": " : ", ") + who.get<std::string>();
        } else if (event == "progress" && get_number(message, "bytes") != bytes) {
            bytes = get_number(message, "bytes");
            progress_at = Clock::now();
        }
        report_(message);
    }
}

}  // namespace cairn::coordinator
