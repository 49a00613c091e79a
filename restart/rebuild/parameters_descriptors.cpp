// What the restorer does to the process's descriptors, most of which are in place by then, and to its
// children.
#include <signal.h>

#include "common/agent.h"
#include "resources/lock/restore.h"
#include "restart/rebuild/parameters.h"

namespace cairn::restart {

Result<> add_descriptors(ParameterBlock& block, const Rebuilding& rebuilding, const Inherited& inherited) {
    const schema::Process& process = *rebuilding.process;
    const auto postponed = TRY(inherited.objects.postponed(process));
    std::vector<restorer::Postponed> last;
    for (const auto& each : postponed.descriptors)
        last.push_back({each.fd.number(), each.kept.keeper, each.kept.number, each.twin.number()});
    std::vector<std::int32_t> cloexec;
    for (const auto& descriptor : process.descriptors)
        if (descriptor.close_on_exec) cloexec.push_back(descriptor.fd.number());
    std::vector<restorer::Lock> locks;
    for (const auto& lock : own_locks(process))
        locks.push_back({lock.fd.number(), lock.kind == schema::LockKind::lease ? 1 : 0, lock.type,
                         lock.start, lock.length});
    std::vector<restorer::Notify> notifications;
    for (auto& each : inherited.objects.notifications(process)) {
        each.notice.resize(notice_size);
        const auto value = each.notify == SIGEV_THREAD ? block.add(each.notice).value() : each.value;
        notifications.push_back({each.fd.number(), each.signal, each.notify, 0, value});
    }
    std::vector<restorer::RingBuffers> rings;
    for (const auto& each : inherited.objects.ring_buffers(process)) {
        std::vector<std::uint64_t> vectors;  // struct iovec
        for (const auto& [address, length] : each.buffers) vectors.insert(vectors.end(), {address, length});
        rings.push_back({each.ring.number(), static_cast<std::uint32_t>(each.buffers.size()),
                         block.add(vectors).value()});
    }

    using restorer::Params;
    block.add(last, &Params::postponed, &Params::postponed_count);
    block.add(cloexec, &Params::cloexec, &Params::cloexec_count);
    block.add(locks, &Params::locks, &Params::lock_count);
    block.add(notifications, &Params::notifications, &Params::notification_count);
    block.add(rings, &Params::ring_buffers, &Params::ring_buffers_count);
    block.add(rebuilding.told_children, &Params::stopped_children, &Params::stopped_children_count);
    auto& params = block.params();
    params.first_own = postponed.first_own;
    params.last_own = postponed.last_own;
    params.seat = postponed.seat.number();
    params.close_from = static_cast<std::uint32_t>(inherited.close_from);
    params.drop_child_signals = rebuilding.untold_child ? 1 : 0;
    return {};
}

}  // namespace cairn::restart
