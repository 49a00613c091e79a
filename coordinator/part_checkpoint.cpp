#include "coordinator/part_checkpoint.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

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

constexpr auto root_patience = 180s;  // between two orders; a root that is gone is noticed by its link

}  // namespace

PartCheckpoint::PartCheckpoint(Surroundings surroundings, std::function<void(const Json&)> report)
    : s_(std::move(surroundings)),
      report_(std::move(report)),
      wake_(s_.io),
      capture_(s_.io, s_.session, s_.regions, s_.registry, limits_, given_up_) {}

struct PartCheckpoint::Part {
    Part() = default;
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part() {
        if (folder && !kept) abandon_part(*folder);
    }
    std::string root, cid;
    std::optional<PartFolder> folder;
    bool kept = false;
    Captured captured;
    schema::Manifest whole;  // of all hosts
};

void PartCheckpoint::order(const Json& order) {
    const std::string what = get_string(order, "do");
    if (what == wire::GiveUp::name.value) {
        withdraw_ = true;
        return give_up(wire::glean<wire::GiveUp>(order).reason);
    }
    if (what == wire::Pass::name.value) {
        // Straight through: the programs stand still.
        const auto pass = wire::unpack<wire::Pass>(order);
        if (!pass) return give_up("the root said what can't be understood: " + pass.error().what);
        return capture_.say({.pass = pass->barrier, .data = pass->data});
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
    capture_.interrupt();
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
        report_(pack(wire::Finished{}));
    else
        report_(pack(wire::Failed{.code = static_cast<int>(result.error().code),
                                  .reason = result.error().what,
                                  .passing = result.error().passing}));
}

template <class M>
asio::awaitable<Result<M>> PartCheckpoint::next() {
    const auto until = Clock::now() + root_patience;
    while (orders_.empty() && given_up_.empty()) {
        if (Clock::now() > until)
            co_return fail_code(ExitCode::timed_out, "the root said nothing for {} s",
                                std::chrono::seconds(root_patience).count());
        wake_.expires_at(until);
        boost::system::error_code cancelled;
        co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
    if (!given_up_.empty()) co_return fail("{}", given_up_);
    const Json order = std::move(orders_.front());
    orders_.pop_front();
    if (get_string(order, "do") != M::name.value)
        co_return fail("{} was expected of the root, not {}", M::name.value, text_of(order));
    Result<M> understood = wire::unpack<M>(order);
    if (!understood)
        understood.error().what = "the root said what can't be understood: " + understood.error().what;
    co_return understood;
}

asio::awaitable<Result<>> PartCheckpoint::take() {
    Part part;
    Result<> done = co_await prepare(part);
    if (done) done = co_await capture(part);
    if (done) done = co_await seal(part);
    if (done) done = co_await publish(part);
    if (done) done = co_await finish(part);
    // However this ends, who is held must not be left so.
    if (part.captured.held) co_await part.captured.held->finish(limits_.margin);
    co_return done;
}

asio::awaitable<Result<>> PartCheckpoint::prepare(Part& part) {
    const auto order = co_await next<wire::Prepare>();
    if (!order) co_return std::unexpected(order.error());
    part.root = order->ckptdir_asked_for || s_.ckptdir.empty() ? order->ckptdir : s_.ckptdir;
    part.cid = order->cid;
    co_await wait_for_births(s_.io, s_.registry);
    s_.registry.provide_for_kin();
    if (Result<> fine = check_saveable(s_.registry); !fine) co_return std::unexpected(fine.error());
    const std::function<std::uint32_t()> asking = [&part] { return next_generation(part.root, part.cid); };
    const std::uint32_t number = co_await elsewhere(s_.disk, asking);
    report_(pack(wire::Prepared{.next = number, .processes = s_.registry.members().size()}));
    co_return Result<>();
}

asio::awaitable<Result<>> PartCheckpoint::capture(Part& part) {
    const auto said = co_await next<wire::CapturePart>();
    if (!said) co_return std::unexpected(said.error());
    CaptureOrder order;
    order.cid = part.cid;
    order.generation = said->generation;
    order.self_contained = said->self_contained;
    order.track_mem = said->track_mem;
    order.without_strangers = said->without_strangers;
    order.hold = said->hold;
    order.external = said->external;
    order.landlock = said->landlock;
    order.files = said->files;
    order.with = said->with;
    order.compress = said->compress;
    order.host = s_.host;
    order.joint = true;
    order.standing = std::chrono::milliseconds(said->deadline_ms);
    const std::function<Result<PartFolder>()> beginning = [&] {
        return begin_part(part.root, part.cid, order.generation, s_.host);
    };
    Result<PartFolder> made = co_await elsewhere(s_.disk, beginning);
    if (!made) co_return std::unexpected(made.error());
    part.folder.emplace(std::move(*made));
    order.directory = part.folder->partial();
    if (const Result<> fine = room_for(s_.registry, part.root).check(); !fine)
        co_return std::unexpected(fine.error());
    if (!given_up_.empty()) co_return fail("{}", given_up_);
    s_.registry.scan();
    if (s_.registry.members().empty()) co_return fail("its last process has ended");
    Result<Captured> captured = co_await capture_.take(order, report_);
    if (!captured) co_return std::unexpected(captured.error());
    part.captured = std::move(*captured);

    const schema::Manifest& manifest = part.captured.manifest;
    wire::CapturedPart told{.bytes = manifest.bytes,
                            .processes = manifest.images.size(),
                            .pause_ns = manifest.pause_ns,
                            .addresses = known_addresses(s_.regions.owners().sockets),
                            .notes = part.captured.said.notes};
    for (const auto& one : manifest.parts)
        told.parts.push_back({.number = one.number, .terminal = one.terminal, .pids = one.pids});
    report_(pack(told));
    co_return Result<>();
}

asio::awaitable<Result<>> PartCheckpoint::seal(Part& part) {
    const auto order = co_await next<wire::Seal>();
    if (!order) co_return std::unexpected(order.error());
    Result<schema::Manifest> whole = schema::manifest_from_json(order->manifest);
    if (!whole) co_return std::unexpected(std::move(whole.error()).in("the root sent a bad manifest"));
    part.whole = std::move(*whole);
    // Numbers of parts are the computation's; here they began at 1.
    schema::Manifest& manifest = part.captured.manifest;
    manifest.np = part.whole.np;
    manifest.parts = part.whole.parts;
    manifest.hosts = part.whole.hosts;
    manifest.total_ns = part.whole.total_ns;
    for (auto& image : manifest.images)
        if (image.part > 0) image.part += order->part_base;
    part.whole.kernel = manifest.kernel;
    part.whole.cpu_model = manifest.cpu_model;
    part.whole.cpu_flags = manifest.cpu_flags;
    const std::function<Result<>()> sealing = [&] { return seal_part(*part.folder, manifest); };
    const Result<> sealed = co_await elsewhere(s_.disk, sealing);
    if (!sealed) co_return std::unexpected(sealed.error());
    report_(pack(wire::Sealed{}));
    co_return Result<>();
}

asio::awaitable<Result<>> PartCheckpoint::publish(Part& part) {
    if (const auto order = co_await next<wire::Publish>(); !order) co_return std::unexpected(order.error());
    using Notes = Result<std::vector<std::string>>;
    const std::function<Notes()> publishing = [&part] { return publish_part(*part.folder, part.whole); };
    const Notes notes = co_await elsewhere(s_.disk, publishing);
    if (!notes) co_return std::unexpected(notes.error());
    report_(pack(wire::Published{.notes = *notes, .directory = part.folder->whole.final()}));
    co_return Result<>();
}

asio::awaitable<Result<>> PartCheckpoint::finish(Part& part) {
    const auto order = co_await next<wire::Finish>();
    if (!order) {
        // A root that was lost may have told everybody else to keep it; a restart refuses generations that
        // don't fit.
        part.kept = !withdraw_;
        co_return std::unexpected(order.error());
    }
    part.kept = true;
    part.folder->whole.lock.reset();
    if (part.captured.held) {
        co_await s_.kill_group();
        co_await part.captured.held->finish(limits_.margin);
        part.captured.held.reset();
    }
    const auto used = s_.folders_in_use();
    co_await prune_old(s_.disk, part.root, part.cid, order->keep, used);
    co_return Result<>();
}

}  // namespace cairn::coordinator
