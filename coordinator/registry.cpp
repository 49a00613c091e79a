#include "coordinator/registry.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "common/human.h"
#include "common/part_words.h"
#include "common/proc.h"
#include "common/region_mapping.h"
#include "common/region_ops.h"
#include "common/uid.h"
#include "coordinator/claim.h"
#include "coordinator/other_numbers.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// A shell script can fork thousands of times a second. Not more often than this are slots read and is the
// thread that waits for a change woken: a wake-up costs the one who is born a tenth of his birth. Whoever
// ends sooner is never looked up in /proc, where taking away what the look-up has made would cost his parent
// as much again. Who wants to know it now (a checkpoint, list, hello) scans.
constexpr auto scan_pause = 10ms;
// A process that claims to be a member and for whom nothing speaks yet is in the middle of an exec: so long
// it is asked again.
constexpr auto doubt = 2s;
// How many claims of another user's region may be wrong in one scan, and how long it isn't looked at then:
// whoever writes into it what he likes must not keep the coordinator from its work.
constexpr std::size_t patience_with_claims = 64;
constexpr auto sulk = 500ms;
// How often a process is looked at for which there is no descriptor: all of them take a small part of a CPU.
constexpr auto look_pause = 200ms;
constexpr auto look_pause_each = 1ms;

}  // namespace

struct Registry::Watch {
    Watch(asio::io_context& io, ProcessHandle of, Place place_of_slot, pid_t id)
        : process(std::move(of)), again(io), place(place_of_slot), pid(id) {
        if (process.fd() >= 0) descriptor.emplace(io, process.fd());
    }
    ~Watch() {
        if (descriptor) descriptor->release();
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ProcessHandle process;
    std::optional<asio::posix::stream_descriptor> descriptor;  // none: the process has to be looked at
    asio::steady_timer again;
    Place place;
    pid_t pid;
};

// Waits for changes of one region.
struct Registry::Bell {
    explicit Bell(Region& of) : region(of) {}
    Region& region;
    std::thread thread;
    Clock::time_point quiet_until{};
};

Registry::Registry(asio::io_context& io, Regions& regions, Listener listener)
    : io_(io),
      regions_(regions),
      listener_(std::move(listener)),
      host_(host_name()),
      throttle_(io),
      birth_timer_(io),
      search_timer_(io) {}

Registry::~Registry() {
    stop();
}

Result<> Registry::start(bool adopted, std::set<KernelId> not_ids) {
    not_ids_ = std::move(not_ids);
    verify_ = adopted;
    for (std::size_t number = 0; number < regions_.size(); ++number)
        bells_.push_back(std::make_unique<Bell>(regions_[number]));
    scan();
    verify_ = false;
    if (adopted) {
        search();
        schedule_search(search_pause);
    }
    for (std::size_t number = 0; number < regions_.size(); ++number)
        if (Result<> rung = ring(number); !rung) return rung;
    regions_.made = [this](std::size_t number) {
        bells_.push_back(std::make_unique<Bell>(regions_[number]));
        if (Result<> rung = ring(number); !rung) listener_.warning(rung.error().what);
    };
    return {};
}

Result<> Registry::ring(std::size_t number) {
    Bell& bell = *bells_[number];
    try {
        bell.thread = thread_elsewhere(not_ids_, [this, &bell] { watch_futex(bell); });
    } catch (const std::system_error& problem) {
        return fail(
            "the coordinator can't begin a thread: {} (as many processes and threads run as the user may "
            "have: see "
            "`ulimit -u`)",
            problem.code().message());
    }
    return {};
}

void Registry::stop() {
    stopping_ = true;
    for (const auto& bell : bells_) {
        if (!bell->thread.joinable()) continue;
        bell->region.changes.fetch_add(1);
        ::syscall(SYS_futex, &bell->region.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
        bell->thread.join();
    }
    throttle_.cancel();
    birth_timer_.cancel();
    search_timer_.cancel();
    watches_.clear();
}

void Registry::watch_futex(Bell& bell) {
    std::uint32_t seen = bell.region.changes.load();
    // What changed between the first scan and now must not be missed.
    posted_ = true;
    asio::post(io_, [this] { on_change(); });
    while (!stopping_) {
        // Not FUTEX_PRIVATE: the wakers are other processes. Not for ever: whoever can write the word can
        // also put back what the end of our thread has written.
        constexpr timespec longest = {1, 0};
        ::syscall(SYS_futex, &bell.region.changes, FUTEX_WAIT, seen, &longest, nullptr, 0);
        const std::uint32_t now = bell.region.changes.load();
        if (now == seen || stopping_) continue;
        seen = now;
        if (!posted_.exchange(true)) asio::post(io_, [this] { on_change(); });
        std::this_thread::sleep_for(scan_pause);
    }
}

void Registry::on_change() {
    if (stopping_) return;
    const auto next = last_scan_ + scan_pause;
    if (Clock::now() < next) {
        throttle_.expires_at(next);
        throttle_.async_wait([this](const boost::system::error_code& error) {
            if (!error) on_change();
        });
        return;
    }
    scan();
}

void Registry::scan() {
    posted_ = false;  // before the slots are read: a change after its slot was read posts again
    last_scan_ = Clock::now();
    unread_.clear();
    for (std::size_t number = 0; number < regions_.size(); ++number) scan(number);
    look_for_crowd();
    if (regions_.size() > 1)
        regions_.share_ids([this](KernelId id, uid_t user) { return is_members_thread(id.number(), user); });
    if ((!births_.empty() || !doubted_.empty() || !unread_.empty()) && !birth_timer_set_) {
        birth_timer_set_ = true;
        birth_timer_.expires_after(500ms);
        birth_timer_.async_wait([this](const boost::system::error_code& error) {
            birth_timer_set_ = false;
            if (error || stopping_) return;
            check_births();
            scan();
        });
    }
}

void Registry::scan(std::size_t number) {
    Bell& bell = *bells_[number];
    if (last_scan_ < bell.quiet_until) return;
    const Region& region = regions_[number];
    const std::size_t doubted = doubted_.size();
    std::size_t wrong = 0;
    const std::uint32_t end = std::min(region.slots_end.load(std::memory_order_acquire), slot_count);
    for (std::uint32_t i = 0; i < end; ++i) {
        const SlotState state = region.slots[i].state.load(std::memory_order_acquire);
        const Place place = Regions::place(number, i);
        if (state == SlotState::free && !members_.contains(place) && !births_.contains(place)) continue;
        look_at(place, state);
        if (number == 0 || members_.contains(place) || state == SlotState::birth) continue;
        if (++wrong < patience_with_claims) continue;
        bell.quiet_until = last_scan_ + sulk;
        break;
    }
    if (doubted_.size() > doubted || last_scan_ < bell.quiet_until) return;
    // Those that are no claims any more.
    std::erase_if(doubted_, [&](const auto& each) {
        return Regions::number_of(each.first) == number &&
               regions_.slot(each.first).state.load(std::memory_order_acquire) == SlotState::free;
    });
}

void Registry::look_at(Place place, SlotState state) {
    Slot& slot = regions_.slot(place);
    const auto known = members_.find(place);
    const pid_t pid = slot.pid.load(std::memory_order_relaxed);

    const pid_t parent = slot.parent_pid.load(std::memory_order_relaxed);
    // Another user's processes announce births of their own only.
    if (state == SlotState::birth && (Regions::number_of(place) == 0 || is_member(parent))) {
        const auto [birth, fresh] = births_.try_emplace(place, Birth{parent, Clock::now()});
        if (!fresh && birth->second.parent != parent) birth->second = Birth{parent, Clock::now()};
    } else {
        births_.erase(place);
    }
    if (state != SlotState::running && state != SlotState::exec) {
        if (known != members_.end()) remove(place);
        return;
    }
    const std::uint64_t born_ns = slot.born_ns.load(std::memory_order_relaxed);
    if (known != members_.end()) {
        if (known->second.pid == pid && known->second.born_ns == born_ns) {
            constexpr std::uint32_t wants = slot_wants_checkpoint;
            if ((slot.flags.load(std::memory_order_relaxed) & wants) != 0 &&
                (slot.flags.fetch_and(~wants) & wants) != 0)
                listener_.asks(known->second);
            return;
        }
        remove(place);
    }
    add(place, pid, born_ns);
}

void Registry::release(Place place) {
    doubted_.erase(place);
    release_slot(regions_.region_of(place), static_cast<std::int32_t>(Regions::index_of(place)));
}

// After a judgement that took a while: the process may have ended and the slot be another's, or a new image
// may have registered. Then it is read again with the births.
void Registry::release_unchanged(Place place, pid_t pid, std::uint64_t born_ns) {
    const Slot& slot = regions_.slot(place);
    if (slot.pid.load(std::memory_order_acquire) == pid &&
        slot.born_ns.load(std::memory_order_relaxed) == born_ns)
        return release(place);
    unread_.insert(place);
}

// The process has become another user: its new region says the same of it. It stays the member that it was.
void Registry::move(Place from, Place to) {
    auto member = members_.extract(from);
    member.key() = to;
    member.mapped().place = to;
    // The claim's own time stamp is somebody else's word.
    regions_.slot(to).born_ns.store(member.mapped().born_ns, std::memory_order_relaxed);
    slot_of_[member.mapped().pid] = to;
    auto watch = watches_.extract(from);
    watch.key() = to;
    watch.mapped()->place = to;
    watches_.insert(std::move(watch));
    if (auto uid = restored_uids_.extract(from); !uid.empty()) {
        uid.key() = to;
        restored_uids_.insert(std::move(uid));
    }
    members_.insert(std::move(member));
    release(from);
}

// The pid of a claim that is believed has another slot already. True: there is nothing to be added.
bool Registry::already_in(Place place, pid_t pid) {
    const auto other = slot_of_.find(pid);
    if (other == slot_of_.end() || other->second == place) return false;
    const Place old = other->second;
    if (members_.at(old).found) {
        // It was found by a search just before it registered by itself.
        remove(old);
        release(old);
        return false;
    }
    if (Regions::number_of(old) != Regions::number_of(place)) {
        move(old, place);
        return true;
    }
    listener_.warning(fmt::format("process {} has two slots, {} and {}", pid, Regions::index_of(old),
                                  Regions::index_of(place)));
    return false;
}

void Registry::add(Place place, pid_t pid, std::uint64_t born_ns) {
    Slot& slot = regions_.slot(place);
    const std::size_t number = Regions::number_of(place);
    if (pid <= 0) return;  // being filled
    auto process = ProcessHandle::of(pid);
    const auto info = process_info(pid);
    // Behind the pidfd, which tells if it ends from here on.
    const bool ended = info ? has_ended(*info) : has_ended(pid);
    // Too few descriptors for a file of /proc: nothing is known of it. Looked at again with the births.
    if (!ended && (!info || (!process && process.error().number != ESRCH))) {
        unread_.insert(place);
        return;
    }
    const auto restored = restored_uids_.find(place);
    // After another coordinator's death a long time may have passed, and pids may have been given to
    // strangers.
    const bool stale =
        verify_ ? !slot_is_alive(slot, regions_.key(number)) : info && started_after(slot, *info);
    if (!process || !info || stale || ended) return release_unchanged(place, pid, born_ns);
    const Claim claim = restored != restored_uids_.end()
                            ? Claim::proved
                            : judge(regions_, number, pid, *info, was_handed(number, pid, *info),
                                    [this](pid_t parent) { return is_member(parent); });
    if (claim == Claim::false_ && number == 0 && resettle(place, pid, *info)) return;
    if (claim != Claim::proved) {
        const auto since = doubted_.try_emplace(place, last_scan_).first->second;
        if (claim == Claim::false_ || last_scan_ - since > doubt) release_unchanged(place, pid, born_ns);
        return;
    }
    doubted_.erase(place);
    handed_.erase(pid);
    if (already_in(place, pid)) return;
    Member member;
    member.place = place;
    member.pid = pid;
    // What another user's process calls itself has come to the owner's map, if it may (Regions::share_ids).
    const ProgramId own_word = number == 0 ? program_pid(slot) : ProgramId();
    member.program_pid = own_word.known() ? own_word : program_id(regions_.owners().ids, KernelId(pid));
    member.born_ns = born_ns;
    member.uid =
        restored != restored_uids_.end() ? restored->second : make_uid(host_, member.program_pid, born_ns);
    member.name = info->name;
    members_[place] = member;
    slot_of_[pid] = place;
    auto watch = std::make_shared<Watch>(io_, std::move(*process), place, pid);
    watches_[place] = watch;
    if (!watch->descriptor && ++looked_at_ == 1)
        listener_.warning(fmt::format(
            "there are more processes than this coordinator may have descriptors for (`ulimit -Hn`): those "
            "that come from now on, {} the first, are looked at from time to time",
            describe(pid)));
    await_end(watch);
    listener_.joined(member);
}

void Registry::remove(Place place) {
    const auto found = members_.find(place);
    if (found == members_.end()) return;
    const Member member = found->second;
    members_.erase(found);
    if (const auto slot = slot_of_.find(member.pid); slot != slot_of_.end() && slot->second == place)
        slot_of_.erase(slot);
    watches_.erase(place);
    restored_uids_.erase(place);
    listener_.left(member);
}

std::string Registry::foreign(const Member& member) const {
    const Slot& slot = regions_.slot(member.place);
    char why[sizeof slot.foreign];
    std::memcpy(why, slot.foreign, sizeof why);
    why[sizeof why - 1] = '\0';
    return printable(why);
}

void Registry::await_end(const std::shared_ptr<Watch>& watch) {
    if (!watch->descriptor) {
        watch->again.expires_after(look_pause + look_pause_each * watches_.size());
        watch->again.async_wait([this, weak = std::weak_ptr(watch)](const boost::system::error_code& error) {
            const auto alive = weak.lock();
            if (!error && alive) ended(alive);
        });
        return;
    }
    watch->descriptor->async_wait(
        asio::posix::stream_descriptor::wait_read,
        [this, weak = std::weak_ptr(watch)](const boost::system::error_code& error) {
            const auto alive = weak.lock();
            if (!error && alive) ended(alive);
        });
}

void Registry::ended(const std::shared_ptr<Watch>& watch) {
    const auto current = watches_.find(watch->place);
    if (current == watches_.end() || current->second != watch) return;
    // A pidfd of a main thread that ended before its siblings can be readable too early on some kernels.
    if (watch->process.signal(0) != ProcessHandle::Sent::gone && !has_ended(watch->pid)) {
        if (!watch->descriptor) return await_end(watch);
        watch->again.expires_after(50ms);
        watch->again.async_wait([this, weak = std::weak_ptr(watch)](const boost::system::error_code& error) {
            const auto alive = weak.lock();
            if (!error && alive) await_end(alive);
        });
        return;
    }
    Slot& slot = regions_.slot(watch->place);
    if (slot.pid.load(std::memory_order_relaxed) == watch->pid) {
        const SlotState state = slot.state.load(std::memory_order_acquire);
        if (state == SlotState::running || state == SlotState::exec) release(watch->place);
    }
    remove(watch->place);
}

bool Registry::orphans_on_their_way() const {
    return std::ranges::any_of(births_, [](const auto& each) {
        const pid_t parent = each.second.parent;
        return parent > 0 && has_ended(parent);
    });
}

bool Registry::is_member(pid_t pid) const {
    const auto place = slot_of_.find(pid);
    if (place == slot_of_.end()) return false;
    // A member's pid is its own as long as it lives: its pidfd says so.
    const auto watch = watches_.find(place->second);
    return watch != watches_.end() && watch->second->process.signal(0) == ProcessHandle::Sent::yes;
}

bool Registry::is_members_thread(pid_t id, uid_t user) const {
    const auto ids = user_ids(id);
    const auto process = ids && ids->belongs_to(user, regions_.owner()) ? proc::process_of(id) : std::nullopt;
    return process && is_member(*process);
}

Result<> Registry::restore(const wire::ReadyMember& member) {
    if (member.slot >= slot_count)
        return fail("slot {} of process {}: there are {} slots", member.slot, member.pid, slot_count);
    const pid_t pid = member.real.number();
    if (!member.real.known() || !member.pid.known())
        return fail("process {}: a real and a virtual pid are needed", member.uid);
    auto number = TRY(member.user ? regions_.of_user(*member.user) : Result<std::size_t>(0));
    const auto ids = user_ids(pid);
    if (!ids || !ids->belongs_to(regions_.user(number), regions_.owner()))
        return fail("process {} ({}) doesn't run as user {}", member.pid, describe(pid),
                    regions_.user(number));
    Region& region = regions_[number];
    const Place place = Regions::place(number, member.slot);
    Slot& slot = regions_.slot(place);
    const pid_t holder = slot.pid.load(std::memory_order_relaxed);
    const SlotState state = slot.state.load(std::memory_order_acquire);
    const bool same = holder == pid;
    if (state != SlotState::free && !same && holder > 0 && !has_ended(holder))
        return fail("slot {} of process {} is in use by {}", member.slot, member.pid, describe(holder));
    if (state != SlotState::free) remove(place);
    slot.state.store(SlotState::birth, std::memory_order_release);
    std::uint32_t end = region.slots_end.load();
    while (end <= member.slot && !region.slots_end.compare_exchange_weak(end, member.slot + 1)) {
    }
    name_slot(region, static_cast<std::int32_t>(member.slot), member.real);
    set_program_pid(slot, member.real, member.pid);
    slot.parent_pid.store(0, std::memory_order_relaxed);
    slot.born_ns.store(born_of_uid(member.uid), std::memory_order_relaxed);
    if (member.region_at.known()) slot.region_at.store(member.region_at.value(), std::memory_order_relaxed);
    if (member.door.known()) slot.door.store(member.door.value(), std::memory_order_relaxed);
    slot.flags.fetch_or(slot_restored);
    slot.state.store(SlotState::running, std::memory_order_release);
    // The uID of a process that comes from another host begins with that host's hash.
    restored_uids_[place] = member.uid;
    look_at(place, SlotState::running);
    const auto known = members_.find(place);
    if (known == members_.end())
        return fail("process {} ({}) is not alive or has not mapped the session's region", member.pid,
                    describe(pid));
    known->second.door = member.door;
    return {};
}

bool Registry::is_kin(pid_t pid) {
    scan();
    if (is_member(pid)) return true;
    const auto info = process_info(pid);
    return info && is_member(info->parent);
}

std::size_t Registry::kill_all() {
    std::size_t killed = 0;
    std::vector<std::shared_ptr<Watch>> gone;  // and nobody would tell us
    for (const auto& [place, watch] : watches_) {
        const auto sent = watch->process.signal(SIGKILL);
        if (sent == ProcessHandle::Sent::yes) ++killed;
        if (!watch->descriptor && (sent == ProcessHandle::Sent::gone || has_ended(watch->pid)))
            gone.push_back(watch);
    }
    for (const auto& watch : gone) ended(watch);
    for (const auto& [place, birth] : births_) {
        const pid_t pid = regions_.slot(place).pid.load(std::memory_order_relaxed);
        if (pid <= 0) continue;
        const auto process = ProcessHandle::of(pid);
        // Only what is surely ours: between the read and the open the pid may have been given away.
        if (process && find_mapping(pid, regions_.key(Regions::number_of(place))).mapped == Mapped::yes &&
            process->signal(SIGKILL) == ProcessHandle::Sent::yes)
            ++killed;
    }
    return killed;
}

}  // namespace cairn::coordinator
