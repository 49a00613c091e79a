// Processes of the session that no slot names: births that nothing came of, those who were born past our
// wrappers, and those who found the table full.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "common/outside_mark.h"
#include "common/proc.h"
#include "common/region_mapping.h"
#include "common/region_ops.h"
#include "coordinator/registry.h"

namespace cairn::coordinator {

using namespace std::chrono_literals;

namespace {

// How long a birth may be under way before somebody asks where the child is.
constexpr auto birth_grace = 1500ms;

}  // namespace

void Registry::check_births() {
    bool unclear = false;
    for (auto it = births_.begin(); it != births_.end();) {
        const auto& [place, birth] = *it;
        Slot& slot = regions_.slot(place);
        const pid_t child = slot.pid.load(std::memory_order_relaxed);
        if (child > 0 && has_ended(child)) {
            // The parent noted the pid, and the child ended before it registered.
            SlotState expected = SlotState::birth;
            if (slot.state.compare_exchange_strong(expected, SlotState::running)) release(place);
            it = births_.erase(it);
            continue;
        }
        if (child <= 0 && Clock::now() - birth.seen > birth_grace) unclear = true;
        ++it;
    }
    if (unclear) schedule_search(0ms);
}

// Somebody has found a table full. As soon as there is room he is given a slot.
void Registry::look_for_crowd() {
    if (crowded_ || regions_.overflow() == overflow_settled_) return;
    crowded_ = true;
    listener_.warning(fmt::format(
        "the session's table of {} processes is full: who is born now can't be saved until others have "
        "ended, and checkpoints are refused as long as there is anybody of whom that is so",
        slots_of(regions_.owners())));
    schedule_search(search_pause);
}

const std::vector<Registry::Unplaced>& Registry::unplaced() {
    if (!crowded_)
        unplaced_.clear();
    else if (!searching_paused_)
        unplaced_ = without_slot();
    std::erase_if(unplaced_, [](const Unplaced& each) { return each.being_born; });
    return unplaced_;
}

std::vector<Registry::Unplaced> Registry::without_slot() const {
    std::map<pid_t, int> parents_in_birth;
    for (const auto& [place, birth] : births_) ++parents_in_birth[birth.parent];
    std::vector<Unplaced> found;
    for (const pid_t pid : proc::processes()) {
        if (pid == ::getpid() || slot_of_.contains(pid)) continue;
        const auto carried = carrier(pid);
        if (!carried || has_ended(pid)) continue;
        const auto info = process_info(pid);
        const auto birth = info ? parents_in_birth.find(info->parent) : parents_in_birth.end();
        const bool being_born = birth != parents_in_birth.end();
        if (being_born && --birth->second == 0) parents_in_birth.erase(birth);
        found.push_back({pid, carried->first, carried->second.at.start, being_born});
    }
    return found;
}

void Registry::schedule_search(std::chrono::milliseconds after) {
    if (search_set_) return;
    search_set_ = true;
    search_timer_.expires_after(after);
    search_timer_.async_wait([this](const boost::system::error_code& error) {
        search_set_ = false;
        if (!error && !stopping_) search();
    });
}

std::optional<std::pair<std::size_t, MappedAt>> Registry::carrier(pid_t pid) const {
    const auto ids = user_ids(pid);
    for (std::size_t number = 0; number < regions_.size(); ++number) {
        if (!ids || !ids->belongs_to(regions_.user(number), regions_.owner())) continue;
        const MappedAt at = find_mapping(pid, regions_.key(number));
        if (at.mapped == Mapped::yes && at.library) return std::pair(number, at);
    }
    return std::nullopt;
}

void Registry::search() {
    if (searching_paused_) {
        schedule_search(search_pause);
        return;
    }
    const std::uint32_t overflow = regions_.overflow();
    std::vector<Unplaced> found = without_slot();
    std::set<pid_t> strangers;
    bool again = false, all_placed = true;
    for (const Unplaced& each : found) {
        strangers.insert(each.pid);
        if (each.being_born) continue;
        all_placed = false;
        if (!strangers_.contains(each.pid))
            again = true;
        else if (places_left(regions_[each.number], false) > 0)
            adopt(each);
    }
    strangers_ = std::move(strangers);
    if (all_placed) {
        overflow_settled_ = overflow;
        crowded_ = false;
    }
    if (again || crowded_) {
        schedule_search(search_pause);
        return;
    }
    // Nobody is left who could still register in these: the child ended first, or never came to be.
    for (auto it = births_.begin(); it != births_.end();) {
        const auto& [place, birth] = *it;
        Slot& slot = regions_.slot(place);
        const bool stale = Clock::now() - birth.seen > birth_grace && strangers_.empty() &&
                           slot.pid.load(std::memory_order_relaxed) <= 0 &&
                           slot.parent_pid.load(std::memory_order_relaxed) == birth.parent;
        SlotState expected = SlotState::birth;
        if (stale && slot.state.compare_exchange_strong(expected, SlotState::running)) {
            release(place);
            it = births_.erase(it);
        } else {
            ++it;
        }
    }
}

void Registry::adopt(const Unplaced& who) {
    const pid_t pid = who.pid;
    const std::size_t number = who.number;
    const auto info = process_info(pid);
    if (!info) return;
    Region& region = regions_[number];
    const std::int32_t index = claim_slot(region, KernelId(info->parent));
    if (index == no_slot) return;
    Slot& slot = region.slots[index];
    set_program_pid(slot, KernelId(pid), program_id(regions_.owners().ids, KernelId(pid)));
    slot.born_ns.store(info->started_ns, std::memory_order_relaxed);
    slot.region_at.store(who.region_at.value(), std::memory_order_relaxed);
    name_slot(region, index, KernelId(pid));
    slot.state.store(SlotState::running, std::memory_order_release);
    const Place place = Regions::place(number, static_cast<std::uint32_t>(index));
    look_at(place, SlotState::running);
    if (const auto member = members_.find(place); member != members_.end()) {
        member->second.found = true;
        listener_.warning(fmt::format("{} {}; it is a member now", describe(pid),
                                      crowded_ ? "had found no place in the session's table"
                                               : "had not registered (born by a raw system call?)"));
    }
}

std::size_t Registry::kill_unregistered(const std::string& region) {
    std::size_t killed = 0;
    for (const pid_t pid : proc::processes()) {
        if (pid == ::getpid() || slot_of_.contains(pid)) continue;
        const auto process = ProcessHandle::of(pid);
        if (!process) continue;
        // Who has the library and not the region isn't this session's, whatever his environment says: the
        // restored programs of another one have that of the session that they were begun in.
        const bool ours =
            carrier(pid) || (begins_with_region(pid, region) && !find_mapping(pid, regions_.key(0)).library);
        if (ours && !begins_with(pid, outside_mark) && !has_ended(pid) &&
            process->signal(SIGKILL) == ProcessHandle::Sent::yes)
            ++killed;
    }
    return killed;
}

}  // namespace cairn::coordinator
