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
#include <system_error>

#include "common/human.h"
#include "common/proc.h"
#include "common/region_ops.h"
#include "common/uid.h"
#include "coordinator/region_file.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// A shell script can fork thousands of times a second. Not more often than this are slots read and is the
// thread that waits for a change woken: a wake-up costs the one who is born a tenth of his birth. Whoever
// ends sooner is never looked up in /proc, where taking away what the look-up has made would cost his parent
// as much again. Who wants to know it now (a checkpoint, list, hello) scans.
constexpr auto scan_pause = 10ms;
// How long a birth may be under way before somebody asks where the child is; a child that has not registered
// after it was seen without a slot twice, this far apart, was born past our wrappers.
constexpr auto birth_grace = 1500ms;
constexpr auto search_pause = 1000ms;

int pidfd_open(pid_t pid) {
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U));
}
int pidfd_signal(int fd, int signal) {
    return static_cast<int>(::syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0U));
}

std::uint64_t born_of_uid(const std::string& uid) {
    const std::size_t dash = uid.rfind('-');
    return dash == std::string::npos ? 0 : std::strtoull(uid.c_str() + dash + 1, nullptr, 10);
}

}  // namespace

struct Registry::Watch {
    Watch(asio::io_context& io, int fd, std::uint32_t slot_index, pid_t process)
        : descriptor(io, fd), again(io), slot(slot_index), pid(process) {}
    asio::posix::stream_descriptor descriptor;
    asio::steady_timer again;
    std::uint32_t slot;
    pid_t pid;
};

Registry::Registry(asio::io_context& io, Region& region, FileKey key, Listener listener)
    : io_(io),
      region_(region),
      key_(key),
      listener_(std::move(listener)),
      host_(host_name()),
      throttle_(io),
      birth_timer_(io),
      search_timer_(io) {}

Registry::~Registry() {
    stop();
}

Result<> Registry::start(bool adopted) {
    verify_ = adopted;
    scan();
    verify_ = false;
    if (adopted) {
        search();
        schedule_search(search_pause);
    }
    try {
        futex_thread_ = std::thread([this] { watch_futex(); });
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
    if (futex_thread_.joinable()) {
        stopping_ = true;
        region_.changes.fetch_add(1);
        ::syscall(SYS_futex, &region_.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
        futex_thread_.join();
    }
    throttle_.cancel();
    birth_timer_.cancel();
    search_timer_.cancel();
    watches_.clear();
}

void Registry::watch_futex() {
    std::uint32_t seen = region_.changes.load();
    // What changed between the first scan and now must not be missed.
    posted_ = true;
    asio::post(io_, [this] { on_change(); });
    while (!stopping_) {
        // Not FUTEX_PRIVATE: the wakers are other processes.
        ::syscall(SYS_futex, &region_.changes, FUTEX_WAIT, seen, nullptr, nullptr, 0);
        const std::uint32_t now = region_.changes.load();
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
    const std::uint32_t end = std::min(region_.slots_end.load(std::memory_order_acquire), slot_count);
    for (std::uint32_t i = 0; i < end; ++i) {
        const SlotState state = region_.slots[i].state.load(std::memory_order_acquire);
        if (state != SlotState::free || members_.contains(i) || births_.contains(i)) look_at(i, state);
    }
    if (!births_.empty() && !birth_timer_set_) {
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

void Registry::look_at(std::uint32_t index, SlotState state) {
    Slot& slot = region_.slots[index];
    const auto known = members_.find(index);
    const pid_t pid = slot.pid.load(std::memory_order_relaxed);

    if (state == SlotState::birth) {
        const pid_t parent = slot.parent_pid.load(std::memory_order_relaxed);
        const auto [birth, fresh] = births_.try_emplace(index, Birth{parent, Clock::now()});
        if (!fresh && birth->second.parent != parent) birth->second = Birth{parent, Clock::now()};
    } else {
        births_.erase(index);
    }
    if (state == SlotState::free || state == SlotState::birth) {
        if (known != members_.end()) remove(index);
        return;
    }
    const std::uint64_t born_ns = slot.born_ns.load(std::memory_order_relaxed);
    if (known != members_.end()) {
        if (known->second.pid == pid && known->second.born_ns == born_ns) return;
        remove(index);
    }
    add(index, pid, born_ns);
}

void Registry::add(std::uint32_t index, pid_t pid, std::uint64_t born_ns) {
    Slot& slot = region_.slots[index];
    if (pid <= 0) return;  // being filled
    if (const auto other = slot_of_.find(pid); other != slot_of_.end() && other->second != index) {
        const Member& twin = members_.at(other->second);
        if (twin.found) {
            // It was found by a search just before it registered by itself.
            const std::uint32_t old = other->second;
            remove(old);
            release_slot(region_, static_cast<std::int32_t>(old));
        } else {
            listener_.warning(fmt::format("process {} has two slots, {} and {}", pid, twin.slot, index));
        }
    }
    const int fd = pidfd_open(pid);
    const auto info = fd < 0 ? std::nullopt : process_info(pid);
    // After another coordinator's death a long time may have passed, and pids may have been given to
    // strangers. In normal times the start is proof enough, and maps is long: a script can start a thousand
    // processes a second.
    const bool stale = verify_ ? !slot_is_alive(slot, key_) : info && started_after(slot, *info);
    if (fd < 0 || !info || stale || has_ended(pid)) {
        if (fd >= 0) ::close(fd);
        release_slot(region_, static_cast<std::int32_t>(index));
        return;
    }
    Member member;
    member.slot = index;
    member.pid = pid;
    member.virtual_pid = virtual_pid(slot);
    if (member.virtual_pid == 0) member.virtual_pid = pid;
    member.born_ns = born_ns;
    const auto restored = restored_uids_.find(index);
    member.uid =
        restored != restored_uids_.end() ? restored->second : make_uid(host_, member.virtual_pid, born_ns);
    member.name = info->name;
    members_[index] = member;
    slot_of_[pid] = index;
    auto watch = std::make_shared<Watch>(io_, fd, index, pid);
    watches_[index] = watch;
    await_end(watch);
    listener_.joined(member);
}

void Registry::remove(std::uint32_t index) {
    const auto found = members_.find(index);
    if (found == members_.end()) return;
    const Member member = found->second;
    members_.erase(found);
    if (const auto slot = slot_of_.find(member.pid); slot != slot_of_.end() && slot->second == index)
        slot_of_.erase(slot);
    watches_.erase(index);
    restored_uids_.erase(index);
    listener_.left(member);
}

void Registry::await_end(const std::shared_ptr<Watch>& watch) {
    auto& descriptor = watch->descriptor;
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [this, weak = std::weak_ptr(watch)](const boost::system::error_code& error) {
                              const auto alive = weak.lock();
                              if (!error && alive) ended(alive);
                          });
}

void Registry::ended(const std::shared_ptr<Watch>& watch) {
    const auto current = watches_.find(watch->slot);
    if (current == watches_.end() || current->second != watch) return;
    // A pidfd of a main thread that ended before its siblings can be readable too early on some kernels.
    if (pidfd_signal(watch->descriptor.native_handle(), 0) == 0 && !has_ended(watch->pid)) {
        watch->again.expires_after(50ms);
        watch->again.async_wait([this, weak = std::weak_ptr(watch)](const boost::system::error_code& error) {
            const auto alive = weak.lock();
            if (!error && alive) await_end(alive);
        });
        return;
    }
    Slot& slot = region_.slots[watch->slot];
    if (slot.pid.load(std::memory_order_relaxed) == watch->pid) {
        const SlotState state = slot.state.load(std::memory_order_acquire);
        if (state == SlotState::running || state == SlotState::exec) {
            release_slot(region_, static_cast<std::int32_t>(watch->slot));
        }
    }
    remove(watch->slot);
}

void Registry::check_births() {
    bool unclear = false;
    for (auto it = births_.begin(); it != births_.end();) {
        const auto& [index, birth] = *it;
        Slot& slot = region_.slots[index];
        const pid_t child = slot.pid.load(std::memory_order_relaxed);
        if (child > 0 && has_ended(child)) {
            // The parent noted the pid, and the child ended before it registered.
            SlotState expected = SlotState::birth;
            if (slot.state.compare_exchange_strong(expected, SlotState::running))
                release_slot(region_, static_cast<std::int32_t>(index));
            it = births_.erase(it);
            continue;
        }
        if (child <= 0 && Clock::now() - birth.seen > birth_grace) unclear = true;
        ++it;
    }
    if (unclear) schedule_search(0ms);
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

void Registry::search() {
    if (searching_paused_) {
        schedule_search(search_pause);
        return;
    }
    std::set<pid_t> strangers;
    std::map<pid_t, MappedAt> where;
    for (const pid_t pid : proc::processes()) {
        if (pid == ::getpid() || slot_of_.contains(pid)) continue;
        const MappedAt at = find_mapping(pid, key_);
        if (at.mapped != Mapped::yes || !at.library || has_ended(pid)) continue;
        strangers.insert(pid);
        where[pid] = at;
    }
    // A vfork child has its parent's mappings until its exec, and registers after it: it is not without a
    // slot.
    std::map<pid_t, int> parents_in_birth;
    for (const auto& [index, birth] : births_) ++parents_in_birth[birth.parent];

    bool again = false;
    for (const pid_t pid : strangers) {
        const auto info = process_info(pid);
        if (info && parents_in_birth.contains(info->parent)) {
            if (--parents_in_birth[info->parent] == 0) parents_in_birth.erase(info->parent);
            continue;
        }
        if (strangers_.contains(pid))
            adopt(pid, where[pid].address);
        else
            again = true;
    }
    strangers_ = std::move(strangers);
    if (again) {
        schedule_search(search_pause);
        return;
    }
    // Nobody is left who could still register in these: the child ended first, or never came to be.
    for (auto it = births_.begin(); it != births_.end();) {
        const auto& [index, birth] = *it;
        Slot& slot = region_.slots[index];
        const bool stale = Clock::now() - birth.seen > birth_grace && strangers_.empty() &&
                           slot.pid.load(std::memory_order_relaxed) <= 0 &&
                           slot.parent_pid.load(std::memory_order_relaxed) == birth.parent;
        SlotState expected = SlotState::birth;
        if (stale && slot.state.compare_exchange_strong(expected, SlotState::running)) {
            release_slot(region_, static_cast<std::int32_t>(index));
            it = births_.erase(it);
        } else {
            ++it;
        }
    }
}

void Registry::adopt(pid_t pid, std::uint64_t region_at) {
    const auto info = process_info(pid);
    if (!info) return;
    const std::int32_t index = claim_slot(region_, info->parent);
    if (index == no_slot) return;
    Slot& slot = region_.slots[index];
    set_virtual_pid(slot, pid, to_virtual(region_.ids, pid));
    slot.born_ns.store(info->started_ns, std::memory_order_relaxed);
    slot.region_at.store(region_at, std::memory_order_relaxed);
    name_slot(region_, index, pid);
    slot.state.store(SlotState::running, std::memory_order_release);
    const auto at = static_cast<std::uint32_t>(index);
    look_at(at, SlotState::running);
    if (const auto member = members_.find(at); member != members_.end()) {
        member->second.found = true;
        listener_.warning(fmt::format(
            "{} had not registered (born by a raw system call?); it is a member now", describe(pid)));
    }
}

Result<> Registry::restore(const RestoredMember& member) {
    if (member.slot >= slot_count)
        return fail("slot {} of process {}: there are {} slots", member.slot, member.virtual_pid, slot_count);
    if (member.real_pid <= 0 || member.virtual_pid <= 0)
        return fail("process {}: a real and a virtual pid are needed", member.uid);
    Slot& slot = region_.slots[member.slot];
    const pid_t holder = slot.pid.load(std::memory_order_relaxed);
    const SlotState state = slot.state.load(std::memory_order_acquire);
    const bool same = holder == member.real_pid;
    if (state != SlotState::free && !same && holder > 0 && !has_ended(holder))
        return fail("slot {} of process {} is in use by {}", member.slot, member.virtual_pid,
                    describe(holder));
    if (state != SlotState::free) remove(member.slot);
    slot.state.store(SlotState::birth, std::memory_order_release);
    std::uint32_t end = region_.slots_end.load();
    while (end <= member.slot && !region_.slots_end.compare_exchange_weak(end, member.slot + 1)) {
    }
    name_slot(region_, static_cast<std::int32_t>(member.slot), member.real_pid);
    set_virtual_pid(slot, member.real_pid, member.virtual_pid);
    slot.parent_pid.store(0, std::memory_order_relaxed);
    slot.born_ns.store(born_of_uid(member.uid), std::memory_order_relaxed);
    if (member.region_at != 0) slot.region_at.store(member.region_at, std::memory_order_relaxed);
    if (member.door != 0) slot.door.store(member.door, std::memory_order_relaxed);
    if (member.timing_tls != 0) slot.timing_tls.store(member.timing_tls, std::memory_order_relaxed);
    slot.flags.fetch_or(slot_restored);
    slot.state.store(SlotState::running, std::memory_order_release);
    // The uID of a process that comes from another host begins with that host's hash.
    restored_uids_[member.slot] = member.uid;
    look_at(member.slot, SlotState::running);
    if (!members_.contains(member.slot))
        return fail("process {} ({}) is not alive or has not mapped the session's region", member.virtual_pid,
                    describe(member.real_pid));
    return {};
}

bool Registry::is_kin(pid_t pid) {
    scan();
    // A member's pid is its own as long as it lives: its pidfd says so.
    const auto lives = [this](pid_t member) {
        const auto slot = slot_of_.find(member);
        if (slot == slot_of_.end()) return false;
        const auto watch = watches_.find(slot->second);
        return watch != watches_.end() && pidfd_signal(watch->second->descriptor.native_handle(), 0) == 0;
    };
    if (lives(pid)) return true;
    const auto info = process_info(pid);
    return info && lives(info->parent);
}

std::size_t Registry::kill_unregistered(const std::string& region) {
    std::size_t killed = 0;
    for (const pid_t pid : proc::processes()) {
        if (pid == ::getpid() || slot_of_.contains(pid)) continue;
        const int fd = pidfd_open(pid);
        if (fd < 0) continue;
        const MappedAt at = find_mapping(pid, key_);
        const bool ours = (at.mapped == Mapped::yes && at.library) || begins_with_region(pid, region);
        if (ours && !has_ended(pid) && pidfd_signal(fd, SIGKILL) == 0) ++killed;
        ::close(fd);
    }
    return killed;
}

std::size_t Registry::kill_all() {
    std::size_t killed = 0;
    for (const auto& [index, watch] : watches_)
        if (pidfd_signal(watch->descriptor.native_handle(), SIGKILL) == 0) ++killed;
    for (const auto& [index, birth] : births_) {
        const pid_t pid = region_.slots[index].pid.load(std::memory_order_relaxed);
        if (pid <= 0) continue;
        const int fd = pidfd_open(pid);
        if (fd < 0) continue;
        // Only what is surely ours: between the read and the open the pid may have been given away.
        if (find_mapping(pid, key_).mapped == Mapped::yes && pidfd_signal(fd, SIGKILL) == 0) ++killed;
        ::close(fd);
    }
    return killed;
}

}  // namespace cairn::coordinator
