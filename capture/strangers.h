// Processes that belong to the computation by all signs and that nobody has registered: a checkpoint without
// them isn't the whole computation.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "capture/session_regions.h"
#include "common/error.h"
#include "common/proc.h"

namespace cairn::capture {

// A process is one if it is none of those that are known, none of cairn's own programs, has not ended, and
//  - carries the session: it has libcairn.so and the session's region mapped, or was executed with that
//    region in its environment (CAIRN_REGION), whoever its parent is by now, and runs as a user of whom there
//    have been members; or
//  - descends from a member (but not from one that was left to run outside: who is behind that one is outside
//    as well).
class Strangers {
  public:
    enum class Known { no, member, outside };

    // Of processes that aren't registered, those for whom the session's table has no place left.
    using Crowd = std::function<std::vector<pid_t>(const std::vector<pid_t>&)>;

    // `region`: the file's path. `visits`: who doesn't load libcairn.so (a static program) will be given it,
    // and is none of them. `known`: asked again and again, for who is being born is registered soon.
    // `may_claim`: whether it is believed that it carries the session (SessionRegions::has_user_of).
    Strangers(std::string region, bool visits, std::function<Known(pid_t)> known, Crowd without_place,
              std::function<bool(pid_t)> may_claim);

    struct Stranger {
        pid_t pid = 0;
        std::uint64_t started = 0;  // clock ticks after boot
        std::string why;
    };

    // Reads all of /proc, while the programs run, and looks at whoever is suspicious until it has registered,
    // has gone, or was given long enough.
    [[nodiscard]] std::vector<Stranger> look();

    // While everybody stands still: only at processes that have come since look() (or since the last time).
    // Costs a reading of /proc's names.
    [[nodiscard]] std::vector<Stranger> look_at_new();

    // Of those who will be given the library: whom no member leads to. As look() has found them.
    [[nodiscard]] const std::vector<pid_t>& orphans() const { return orphans_; }

    // They are not to be found any more.
    void leave_out(const std::vector<Stranger>& strangers);
    [[nodiscard]] bool left_out(pid_t pid) const { return left_out_.contains(pid); }

  private:
    [[nodiscard]] bool still(const Stranger& stranger) const;
    [[nodiscard]] std::vector<Stranger> crowded(std::vector<Stranger> forked) const;

    std::string region_;
    std::function<Known(pid_t)> known_;
    Crowd without_place_;
    std::function<bool(pid_t)> may_claim_;
    bool visits_;
    std::vector<pid_t> orphans_;
    std::set<pid_t> seen_, left_out_;
};

// Why a process isn't registered that has the library and nothing to hinder it.
inline constexpr std::string_view no_place =
    "which found no place in the session's table of processes: all are taken";

// Strangers::Crowd for the session's regions: a child that has its parent's memory can be saved without a
// slot, but a restart gives one to everybody.
[[nodiscard]] std::vector<pid_t> without_place(const SessionRegions& regions, const std::vector<pid_t>& pids);

// "123 (sleep), which ...; 124 (cat), which ..."
[[nodiscard]] std::string describe_strangers(const std::vector<Strangers::Stranger>& strangers);

// Whether it has its parent's memory: it was forked, and has not execed since.
[[nodiscard]] bool has_only_forked(const proc::Stat& stat);

// Whether a process without a slot is a copy-on-write child, ours or of an earlier checkpoint, whose parent
// may have been killed. Born a moment ago it isn't known yet: it gives itself its name and its session.
[[nodiscard]] bool is_snapshot(const proc::Stat& stat, pid_t pid);

// Whether it was started by `cairn outside`, or descends from who was: the mark is in its environment.
[[nodiscard]] bool is_marked_outside(pid_t pid);

// Whether it runs one of our own programs, which are no part of the computation.
[[nodiscard]] bool is_own_program(pid_t pid);

// Whether the loader of the program that it runs heeds LD_PRELOAD; not so static programs and another libc's.
[[nodiscard]] bool heeds_preload(pid_t living);

// Whether a process that isn't registered is one that will be. `undecided`: it is in the middle of an execve
// (its environment isn't there yet) or of its exit (nothing is left of it), which on a busy machine may take
// seconds.
enum class LibraryExpected { no, yes, undecided };
[[nodiscard]] LibraryExpected expects_library(pid_t pid);

}  // namespace cairn::capture
