// Who is in the session: the region's slots, and a pidfd for each process.
//
// Everything runs in one thread (the io_context's) but the futex wait, which only posts.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/region.h"
#include "coordinator/process_info.h"

namespace cairn::coordinator {

struct Member {
    std::uint32_t slot = 0;
    pid_t pid = 0;          // real
    pid_t virtual_pid = 0;  // what the program believes
    std::uint64_t born_ns = 0;
    std::string uid;
    std::string name;    // comm when it was seen first; for words about it when it has gone
    bool found = false;  // had no slot of its own, was found by a scan
};

struct RestoredMember {  // what a restart tells of a process that it has rebuilt
    std::string uid;
    pid_t virtual_pid = 0, real_pid = 0;
    std::uint32_t slot = 0;
    std::uint64_t region_at = 0, door = 0;
    std::int64_t timing_tls = 0;
};

class Registry {
  public:
    struct Listener {
        std::function<void(const Member&)> joined;
        std::function<void(const Member&)> left;
        std::function<void(const std::string&)> warning;
    };

    Registry(boost::asio::io_context& io, Region& region, FileKey key, Listener listener);
    ~Registry();

    // Reads all slots and begins to watch. `adopted`: looks for processes without a slot as well.
    Result<> start(bool adopted);
    void stop();

    // Reads the slots now. Called by itself when Region::changes was raised; before a decision call it
    // yourself.
    void scan();

    [[nodiscard]] const std::map<std::uint32_t, Member>& members() const { return members_; }
    // Slots claimed for children that have not registered yet.
    [[nodiscard]] std::size_t births() const { return births_.size(); }

    // Fills the slot of a process that a restart has rebuilt.
    [[nodiscard]] Result<> restore(const RestoredMember& member);

    // Is this process a member, or a child of one that has not registered (yet)?
    [[nodiscard]] bool is_kin(pid_t pid);

    // SIGKILL for everybody, those included whose births are known by pid. Returns how many got it.
    std::size_t kill_all();
    // The same for those who have the region (its path) and no slot: children whose parent was killed before
    // it noted them. Reads the mappings of all processes.
    std::size_t kill_unregistered(const std::string& region);

    // While a capture runs its copy-on-write children look like processes without a slot.
    void pause_searching(bool paused) { searching_paused_ = paused; }

  private:
    struct Watch;
    struct Birth {
        pid_t parent = 0;
        std::chrono::steady_clock::time_point seen;
    };
    using Clock = std::chrono::steady_clock;

    void watch_futex();
    void on_change();
    void look_at(std::uint32_t index, SlotState state);
    void add(std::uint32_t index, pid_t pid, std::uint64_t born_ns);
    void remove(std::uint32_t index);
    void await_end(const std::shared_ptr<Watch>& watch);
    void ended(const std::shared_ptr<Watch>& watch);
    void check_births();
    void search();
    void adopt(pid_t pid, std::uint64_t region_at);
    void schedule_search(std::chrono::milliseconds after);

    boost::asio::io_context& io_;
    Region& region_;
    FileKey key_;
    Listener listener_;
    std::string host_;
    std::map<std::uint32_t, Member> members_;
    std::map<std::uint32_t, std::shared_ptr<Watch>> watches_;
    std::map<pid_t, std::uint32_t> slot_of_;
    std::map<std::uint32_t, std::string> restored_uids_;
    std::map<std::uint32_t, Birth> births_;
    std::set<pid_t> strangers_;  // had no slot at the last search
    boost::asio::steady_timer throttle_, birth_timer_, search_timer_;
    bool birth_timer_set_ = false, search_set_ = false, searching_paused_ = false, verify_ = false;
    Clock::time_point last_scan_{};
    std::thread futex_thread_;
    std::atomic<bool> stopping_ = false, posted_ = false;
};

}  // namespace cairn::coordinator
