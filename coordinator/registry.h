// Who is in the session: the slots of its regions, and a pidfd for each process.
//
// A slot is what somebody says. It is believed of a process of which the kernel says that it has the region
// mapped, or that its parent is a member, and that it runs as the region's user (claim.h). From then on the
// pidfd counts: the slot may say what it likes.
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
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/ids.h"
#include "common/region.h"
#include "common/wire/capture.h"
#include "common/wire/requests.h"
#include "coordinator/process_handle.h"
#include "coordinator/process_info.h"
#include "coordinator/regions.h"

namespace cairn::coordinator {

struct Member {
    Place place = 0;
    pid_t pid = 0;          // the kernel's
    ProgramId program_pid;  // what the program believes
    std::uint64_t born_ns = 0;
    std::string uid;
    std::string name;     // comm when it was seen first; for words about it when it has gone
    ProgramAddress door;  // where a restart has said that the library's Door is
    bool found = false;   // had no slot of its own, was found by a scan
};

class Registry {
  public:
    struct Listener {
        std::function<void(const Member&)> joined;
        std::function<void(const Member&)> left;
        std::function<void(const Member&)> asks;  // for a checkpoint (cairn_checkpoint of part/cairn.h)
        std::function<void(const std::string&)> warning;
    };

    Registry(boost::asio::io_context& io, Regions& regions, Listener listener);
    ~Registry();

    // Reads all slots and begins to watch. `adopted`: looks for processes without a slot as well. `not_ids`:
    // numbers that no thread of the coordinator's may have.
    Result<> start(bool adopted, std::set<KernelId> not_ids);
    void stop();

    // Reads the slots now. Called by itself when Region::changes was raised; before a decision call it
    // yourself.
    void scan();

    [[nodiscard]] const std::map<Place, Member>& members() const { return members_; }
    // What its slot says why this member can't be saved; "" if it can.
    [[nodiscard]] std::string foreign(const Member& member) const;
    // Slots claimed for children that have not registered yet.
    [[nodiscard]] std::size_t births() const { return births_.size(); }
    // Whether the parent of one of them has gone: no process leads to the child.
    [[nodiscard]] bool orphans_on_their_way() const;
    // Slots of processes of which nothing can be read at the moment: there is no descriptor left for it.
    [[nodiscard]] std::size_t unread() const { return unread_.size(); }

    // A process of the session that found no slot free. It can't be saved as long as that is so.
    struct Unplaced {
        pid_t pid = 0;
        std::size_t number = 0;  // the region that has no room
        ProgramAddress region_at;
        bool being_born = false;  // perhaps a child of vfork, which registers after its exec
    };
    // Reads the mappings of all that aren't members, if a table has been full since nobody was left over.
    // While a capture runs: those that were there before it.
    [[nodiscard]] const std::vector<Unplaced>& unplaced();

    // Fills the slot of a process that a restart has rebuilt.
    [[nodiscard]] Result<> restore(const wire::ReadyMember& member);

    // Is this process a member, or a child of one that has not registered (yet)?
    [[nodiscard]] bool is_kin(pid_t pid);

    // The gate gives this process the region of that number, or the launcher runs in it (0): what the region
    // says of it from then on is believed (claim.h), whatever it executes meanwhile.
    void handed(pid_t pid, std::size_t number);
    // Makes the regions of all users as whom members and their descendants run: a checkpoint gives them to
    // who doesn't load the library. Reads of each process that hasn't registered by itself as whom it runs.
    void provide_for_kin();

    // SIGKILL for everybody, those included whose births are known by pid. Returns how many got it.
    std::size_t kill_all();
    // The same for those who have a region (or were executed with the owner's path, and have no library) and
    // no slot: children whose parent was killed before it noted them, and what static programs have begun.
    // Reads the mappings of all processes.
    std::size_t kill_unregistered(const std::string& region);

    // By which userfaultfd a member has marks, and in which image marked pages are what they are
    // (docs/decisions/0044-write-protection.md). Handed out once: what a checkpoint doesn't leave is gone.
    struct Marks {
        wire::MarksOf of;
        Fd userfault;
    };
    [[nodiscard]] std::vector<Marks> take_marks() { return std::exchange(marks_, {}); }
    void keep_marks(std::vector<Marks> marks) { marks_ = std::move(marks); }

    // While a capture runs its copy-on-write children look like processes without a slot.
    void pause_searching(bool paused) { searching_paused_ = paused; }

  private:
    struct Watch;
    struct Bell;
    struct Birth {
        pid_t parent = 0;
        std::chrono::steady_clock::time_point seen;
    };
    struct Handed {
        std::size_t number = 0;
        std::uint64_t started_ns = 0;  // of the process that has this pid
    };
    using Clock = std::chrono::steady_clock;

    // A child that has not registered after it was seen without a slot twice, this far apart, was born past
    // our wrappers.
    static constexpr std::chrono::milliseconds search_pause{1000};

    Result<> ring(std::size_t number);
    void watch_futex(Bell& bell);
    void on_change();
    void scan(std::size_t number);
    void look_at(Place place, SlotState state);
    void add(Place place, pid_t pid, std::uint64_t born_ns);
    bool already_in(Place place, pid_t pid);
    void move(Place from, Place to);
    void remove(Place place);
    void release(Place place);
    void release_unchanged(Place place, pid_t pid, std::uint64_t born_ns);
    void await_end(const std::shared_ptr<Watch>& watch);
    void ended(const std::shared_ptr<Watch>& watch);
    [[nodiscard]] bool is_member(pid_t pid) const;
    [[nodiscard]] bool is_members_thread(pid_t id, uid_t user) const;

    // registry_users.cpp
    [[nodiscard]] bool was_handed(std::size_t number, pid_t pid, const ProcessInfo& info) const;
    // Of one that runs as another user, has its place in the owner's region and maps nothing: its place is in
    // its user's region from now on. False: it has none to be given.
    bool resettle(Place place, pid_t pid, const ProcessInfo& info);

    // registry_search.cpp
    void check_births();
    void look_for_crowd();
    void search();
    [[nodiscard]] std::vector<Unplaced> without_slot() const;
    void adopt(const Unplaced& who);
    void schedule_search(std::chrono::milliseconds after);
    // Whether it has one of the session's regions mapped and is none of our tools, and which.
    [[nodiscard]] std::optional<std::pair<std::size_t, MappedAt>> carrier(pid_t pid) const;

    boost::asio::io_context& io_;
    Regions& regions_;
    Listener listener_;
    std::set<KernelId> not_ids_;
    std::string host_;
    std::map<Place, Member> members_;
    std::map<Place, std::shared_ptr<Watch>> watches_;
    std::map<pid_t, Place> slot_of_;
    std::map<Place, std::string> restored_uids_;
    std::map<Place, Birth> births_;
    std::map<Place, Clock::time_point> doubted_;  // claims that nothing speaks for yet, since when
    std::map<pid_t, Handed> handed_;
    std::set<Place> unread_;
    std::vector<Unplaced> unplaced_;
    std::vector<Marks> marks_;
    std::uint32_t overflow_settled_ = 0;  // Regions::overflow() when everybody had a slot
    bool crowded_ = false;                // that has been raised since
    std::size_t looked_at_ = 0;           // so many had no descriptor to be followed by
    std::set<pid_t> strangers_;           // had no slot at the last search
    boost::asio::steady_timer throttle_, birth_timer_, search_timer_;
    bool birth_timer_set_ = false, search_set_ = false, searching_paused_ = false, verify_ = false;
    Clock::time_point last_scan_{};
    std::vector<std::unique_ptr<Bell>> bells_;
    std::atomic<bool> stopping_ = false, posted_ = false;
};

}  // namespace cairn::coordinator
