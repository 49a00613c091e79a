// Members that have become another user's processes (docs/decisions/0006-other-users.md): whose word is taken
// for it, and the tables of those who ask nobody for one.
#include <map>

#include "common/proc.h"
#include "common/region_mapping.h"
#include "common/region_ops.h"
#include "coordinator/registry.h"

namespace cairn::coordinator {

void Registry::handed(pid_t pid, std::size_t number) {
    if (number == 0 && is_member(pid)) return;  // it only can't open what it is in (Landlock)
    std::erase_if(handed_, [](const auto& each) { return has_ended(each.first); });
    if (const auto info = process_info(pid)) handed_[pid] = {number, info->started_ns};
}

bool Registry::was_handed(std::size_t number, pid_t pid, const ProcessInfo& info) const {
    const auto found = handed_.find(pid);
    return found != handed_.end() && found->second.number == number &&
           found->second.started_ns == info.started_ns;
}

bool Registry::resettle(Place place, pid_t pid, const ProcessInfo& info) {
    if (regions_.owner() != 0 || !(was_handed(0, pid, info) || is_member(info.parent))) return false;
    // Who has the library asks at the gate, and has to give up what it has of the owner's.
    if (find_mapping(pid, regions_.key(0)).mapped != Mapped::no) return false;
    const auto ids = user_ids(pid);
    if (!ids || ids->belongs_to(regions_.owner(), regions_.owner())) return false;
    const auto number = regions_.of_user(ids->region_of(regions_.owner()));
    if (!number) {
        listener_.warning(fmt::format("{}: {}", describe(pid), number.error().what));
        return false;
    }
    Region& region = regions_[*number];
    if (find_slot(region, KernelId(pid)) != no_slot)
        return false;  // it has asked, and executes something now
    const std::int32_t index = claim_slot(region, KernelId(info.parent));
    if (index == no_slot) return false;
    const Slot& old = regions_.slot(place);
    Slot& slot = region.slots[index];
    set_program_pid(slot, KernelId(pid), program_id(regions_.owners().ids, KernelId(pid)));
    slot.born_ns.store(old.born_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
    slot.flags.fetch_or(old.flags.load(std::memory_order_relaxed) & (slot_restored | slot_restricts));
    name_slot(region, index, KernelId(pid));
    slot.state.store(SlotState::exec, std::memory_order_release);
    handed_[pid] = {*number, info.started_ns};
    release(place);
    look_at(Regions::place(*number, static_cast<std::uint32_t>(index)), SlotState::exec);
    return true;
}

void Registry::provide_for_kin() {
    if (regions_.owner() != 0) return;
    std::map<pid_t, uid_t> without_region;
    std::map<pid_t, pid_t> parents;
    for (const pid_t pid : proc::processes()) {
        // Who has registered by himself asks for his new user's region by himself.
        const auto place = slot_of_.find(pid);
        if (place != slot_of_.end() && regions_.slot(place->second).state.load() != SlotState::exec) continue;
        const auto ids = user_ids(pid);
        const auto info = process_info(pid);
        if (!ids || !info) continue;
        parents[pid] = info->parent;
        const uid_t user = ids->region_of(regions_.owner());
        bool has_one = false;
        for (std::size_t number = 0; number < regions_.size(); ++number)
            has_one = has_one || regions_.user(number) == user;
        if (!has_one) without_region[pid] = user;
    }
    for (const auto& [pid, user] : without_region) {
        pid_t above = pid;
        // What was read one after the other needn't end.
        for (std::size_t steps = 0; !is_member(above) && parents.contains(above) && steps < parents.size();
             ++steps)
            above = parents[above];
        if (!is_member(above)) continue;
        if (const auto number = regions_.of_user(user); !number)
            listener_.warning(fmt::format("{}: {}", describe(pid), number.error().what));
    }
}

}  // namespace cairn::coordinator
