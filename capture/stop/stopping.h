// A stop under way: what is known of each process, and the steps of which stop.cpp is made.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/seize.h"
#include "capture/stop/stop.h"
#include "common/same.h"

namespace cairn::capture {

// How far a process is on its way to standing still. It goes forward from row to row, and back to `candidate`
// when it execs, when all its threads have ended, or when a thread turns up that was not stopped.
enum class Stage {
    gone,       // it has ended, or was never there: nothing but its parent is remembered
    candidate,  // to be stopped; not ready yet: it has not registered, or is in an exec
    seized,     // its threads are seized; some may still run
    looked_at,  // every thread stands still, and its children are known
    left_out,   // runs on, and is not saved: noted
    ended,      // a zombie, to be saved as that
};

struct Tracked {
    Stage stage = Stage::gone;
    pid_t parent = 0;                                  // in whose list of children it was found; 0: in none
    StoppedProcess process;                            // seized, looked_at
    proc::Stat stat;                                   // ended
    std::map<pid_t, Clock::time_point> refused_since;  // threads that we may not seize
    // Stopping::motions() when its list of children was read while everybody stood still; 0: it wasn't.
    std::uint64_t listed_at = 0;

    [[nodiscard]] bool is_held() const { return stage == Stage::seized || stage == Stage::looked_at; }
    // It is taken care of, or will be: whoever finds it once more has nothing to do.
    [[nodiscard]] bool is_known() const { return stage != Stage::gone && stage != Stage::ended; }
};

// vdso.cpp: whether a thread that has stopped is in the middle of a function of the kernel's.
class VdsoPages {
  public:
    [[nodiscard]] bool holds(const SeizedThread& thread);
    // Of a process that executes a program.
    void forget() { elsewhere_.reset(); }

  private:
    // A page that is none of them, in which the last thread stood: most stand in the same one, of libc.
    std::optional<std::pair<pid_t, ProgramAddress>> elsewhere_;
};

// Whoever was stopped goes on when this goes, unless hand_on() has made a StoppedGroup of it.
struct Stopping {
    const SessionRegions& regions;
    Reporter& reporter;
    Outsiders& outsiders;
    std::map<pid_t, Tracked> processes;
    SeizedThreads threads;
    std::vector<WaitEvent> events;  // seen while a seize had to wait, not looked at yet
    VdsoPages vdso_pages;
    Clock::time_point looked_after_silent = Clock::now();
    std::optional<Clock::time_point> orphans_since;  // births whose parents have gone
    Tracers tracers;
    std::optional<Clock::time_point> tracer_awaited_since;  // somebody can't go on before its tracer does

    Stopping(const SessionRegions& its_regions, Reporter& its_reporter, Outsiders& its_outsiders,
             std::uint64_t capture)
        : regions(its_regions),
          reporter(its_reporter),
          outsiders(its_outsiders),
          tracers(its_regions, capture, its_reporter) {}
    Stopping(const Stopping&) = delete;
    Stopping& operator=(const Stopping&) = delete;
    ~Stopping();

    [[nodiscard]] Stage stage_of(pid_t pid) const {
        const auto found = processes.find(pid);
        return found == processes.end() ? Stage::gone : found->second.stage;
    }
    [[nodiscard]] bool is_known(pid_t pid) const {
        const auto found = processes.find(pid);
        return found != processes.end() && found->second.is_known();
    }
    [[nodiscard]] bool is_held(pid_t pid) const {
        const auto found = processes.find(pid);
        return found != processes.end() && found->second.is_held();
    }
    // 0: it is in nobody's list of children that we have seen.
    [[nodiscard]] pid_t parent_of(pid_t pid) const {
        const auto found = processes.find(pid);
        return found == processes.end() ? 0 : found->second.parent;
    }
    [[nodiscard]] bool has_candidates() const;
    void add_candidate(pid_t pid) {
        note_motion();
        processes[pid].stage = Stage::candidate;
    }
    // Grows whenever somebody turns up, goes, or is seen to have moved: lists of children that were read
    // before may be out of date.
    [[nodiscard]] std::uint64_t motions() const { return motions_; }
    void note_motion() {
        ++motions_;
        moved_at_ = Clock::now();
    }
    [[nodiscard]] Clock::time_point moved_at() const { return moved_at_; }
    // No candidates, and no thread that runs: seize_new_threads() has found those there are.
    [[nodiscard]] bool all_stand() const;
    // And the children of each are known. A thread that was looked at may move again, for a signal, and even
    // end without a word: it is waited for as any other.
    [[nodiscard]] bool all_looked_at() const;
    [[nodiscard]] StoppedGroup hand_on() &&;

  private:
    std::uint64_t motions_ = 1;
    Clock::time_point moved_at_ = Clock::now();
};

// threads.cpp: threads are seized, and their processes let go of.

// True: every thread that there is is seized. False: look again.
[[nodiscard]] Result<bool> seize_new_threads(Stopping& group, pid_t pid);
[[nodiscard]] Result<> refuse_tracing(Stopping& group, pid_t pid, pid_t tid, const Error& why);
[[nodiscard]] bool all_still(const Stopping& group, pid_t pid);
// It runs on, and is a candidate again.
void release(Stopping& group, pid_t pid);

// traced.cpp: processes that another member traces.

// A thread that can't be seized because it is traced. What is to be done: seize it again (its tracer has let
// go of it), look again later (its tracer doesn't stand still yet), or nothing of this (nobody of ours traces
// it).
enum class Traced { let_go, later, by_others };
[[nodiscard]] Result<Traced> ask_tracer(Stopping& group, pid_t pid, pid_t tid);
// An error that passes: a process that isn't ready stands in a stop, or waits for one that does, which its
// tracer, who stands still, has to end.
[[nodiscard]] Result<> refuse_waiting_for_tracer(Stopping& group);
// An error that passes: the end of a process is told twice, to its tracer, and when that has waited for it to
// its parent. No restart can have it told again, so a tracer that hasn't waited yet is to go on until it has.
[[nodiscard]] Result<> refuse_untold_ends(const Stopping& group);
// Of a thread whose tracer has let go of it, the registers that its tracer saw. False: it isn't one.
bool as_its_tracer_sees(const Stopping& group, StoppedThread& thread);

// events.cpp: what the kernel tells of seized threads, and what it doesn't.
void drain_events(Stopping& group);
// Sleeps until a child changes (SIGCHLD is blocked in the worker) or a millisecond has passed.
void await_event();
void look_after_silent(Stopping& group);

// doors.cpp: what a process says of itself in its region.

// What may be believed of a process, and in whose region it stands.
struct Registration {
    const SessionRegion* region = nullptr;
    Slot* slot = nullptr;

    explicit operator bool() const { return slot != nullptr; }
};
[[nodiscard]] Registration registration_of(const SessionRegions& regions, pid_t pid);
// Where the region and the agent's door are in a process. False: it has not (yet) registered in this image.
[[nodiscard]] bool find_doors(const Stopping& group, StoppedProcess& process);
// Whether it has said that it can't be saved; it is left out then.
[[nodiscard]] bool says_left_out(Stopping& group, pid_t pid, const Slot& slot);

// visit.cpp: members that don't load our library.

// Whether it is one, and can be stopped to be given it.
[[nodiscard]] bool wants_visit(const Stopping& group, pid_t pid);
// Of a process that stands still. False: it isn't one, or has ended.
[[nodiscard]] Result<bool> visit(Stopping& group, StoppedProcess& process);

// search.cpp: processes that nobody has told us of. Each that is found is a candidate.

// Of a process that stands still. True: that was all.
[[nodiscard]] bool look_for_children(Stopping& group, StoppedProcess& process);
[[nodiscard]] bool no_more_children(Stopping& group);
// True: somebody is on his way.
[[nodiscard]] bool look_for_births(Stopping& group);
[[nodiscard]] bool nobody_has_come(Stopping& group);

// registers.cpp: the state in which threads stand still.

// False: a thread is there that isn't seized.
[[nodiscard]] Result<bool> read_registers(Stopping& group, StoppedProcess& process);
// False: some have to be stopped anew.
[[nodiscard]] Result<bool> read_all_registers(Stopping& group);
// What the kernel would go on with by restart_syscall(2) is called anew where a seccomp filter may kill for
// that.
void spare_restart(pid_t tid);

// waiting_for.cpp: who keeps us waiting, in words.
[[nodiscard]] std::string waiting_for(const Stopping& group);
// What the threads of a process do that don't stand still. Of thousands not all are looked at: everybody
// stands still for it, and no message has room for what would be said.
[[nodiscard]] std::string where_it_runs(const SeizedThreads& threads, pid_t pid);

[[nodiscard]] inline bool dead(char state) {
    return state == 'Z' || state == 'X' || state == 'x';
}
// The last of its threads has ended.
[[nodiscard]] bool all_dead(const proc::Stat& stat, pid_t pid);

// A thread that io_uring has made in the process for its own work: it can't be traced, and is no part of the
// program's state.
[[nodiscard]] bool is_kernels(const proc::Stat& stat);

}  // namespace cairn::capture
