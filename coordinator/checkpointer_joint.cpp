// Checkpoints over several hosts: who takes part, and trying again what passes.
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/human.h"
#include "coordinator/checkpointer.h"
#include "coordinator/network.h"
#include "coordinator/part_checkpoint.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto passing_patience = 3s;

asio::awaitable<void> nap(asio::io_context& io, std::chrono::milliseconds time) {
    asio::steady_timer timer(io, time);
    boost::system::error_code error;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
}

}  // namespace

asio::awaitable<Result<wire::CheckpointDone>> Checkpointer::take_jointly(Job& job) {
    const auto patience = Clock::now() + passing_patience;
    for (auto pause = 10ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 200ms)) {
        Result<wire::CheckpointDone> result = co_await try_jointly(job);
        if (result || !result.error().passing || Clock::now() > patience || !given_up_.empty())
            co_return result;
        co_await nap(s_.io, pause);
    }
}

asio::awaitable<Result<wire::CheckpointDone>> Checkpointer::try_jointly(Job& job) {
    if (s_.group.state() == Group::State::restarting)
        co_return fail_code(ExitCode::refused,
                            "a restart is pending; a checkpoint can be taken when it runs");
    s_.registry.scan();
    for (const auto& [id, host] : s_.hosts.all())
        if (!host.link && !host.members.empty())
            co_return fail_code(
                ExitCode::refused,
                "host {} was lost {} ago, and {} of the computation there can't be saved: bring its "
                "coordinator back, or end the computation (cairn kill) and restart the last checkpoint",
                host.name, human_duration(std::chrono::nanoseconds(Clock::now() - host.lost_at).count()),
                human_count(host.members.size(), "process", "processes"));
    const JointOrder order{.asked = job.order,
                           .cid = s_.group.cid(),
                           .session = s_.session.name,
                           .keep = s_.keep(),
                           .standing = limits_.for_all(s_.registry.members().size() + s_.hosts.members()),
                           .limits = limits_};
    const auto joint =
        std::make_shared<JointCheckpoint>(s_.io, order, [this, &job](const Json& event, bool droppable) {
            const std::string kind = get_string(event, "event");
            if (kind == wire::Phase::name.value) job.phase = wire::glean<wire::Phase>(event).phase;
            if (kind == wire::Progress::name.value) {
                const auto progress = wire::glean<wire::Progress>(event);
                job.bytes = progress.bytes;
                job.total = progress.total;
            }
            tell(job, event, droppable);
        });
    std::shared_ptr<PartCheckpoint> own;
    const std::weak_ptr<JointCheckpoint> weak = joint;
    if (!s_.registry.members().empty()) {
        const auto index = std::make_shared<std::size_t>(0);
        own = std::make_shared<PartCheckpoint>(
            PartCheckpoint::Surroundings{s_.io, disk_, s_.session, s_.regions, s_.registry, s_.host, "",
                                         s_.kill_group, s_.folders_in_use},
            [weak, index](const Json& event) {
                if (const auto alive = weak.lock()) alive->report(*index, event);
            });
        *index = joint->add({s_.host, own_addresses(), [own](const Json& said) { own->order(said); }});
    }
    std::vector<std::uint64_t> conversations;
    for (const auto& [id, host] : s_.hosts.all()) {
        if (host.members.empty()) continue;
        const auto index = std::make_shared<std::size_t>(0);
        const std::uint64_t conversation = s_.hosts.open(id, [weak, index](const Json& event) {
            if (const auto alive = weak.lock()) alive->report(*index, event);
        });
        conversations.push_back(conversation);
        *index = joint->add({host.name, host.addresses,
                             [this, conversation](const Json& said) { s_.hosts.order(conversation, said); }});
    }
    joint_ = joint;
    if (!given_up_.empty()) joint->give_up(given_up_);
    job.open = false;
    Result<wire::CheckpointDone> result = co_await joint->take();
    joint_.reset();
    for (const std::uint64_t conversation : conversations) s_.hosts.close(conversation);
    // What is this host's is put back before anything else begins.
    while (own && !own->over()) co_await nap(s_.io, 2ms);
    if (!result) co_return result;
    job.generation = result->generation;
    job.directory = result->directory;
    s_.published(*result);
    co_return result;
}

}  // namespace cairn::coordinator
