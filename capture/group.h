// The processes that a checkpoint has stopped, and what is known of them while they stand still.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "capture/session_regions.h"
#include "common/agent.h"
#include "common/fd.h"
#include "common/inner_ids.h"
#include "common/proc.h"
#include "common/ptrace/thread.h"
#include "common/schema/process.h"

namespace cairn::capture {

// What is asked about a thread that stands still without being its tracer (capture/collect/thread_files.h).
struct AskedOfThread {
    proc::Status status;
    schema::Thread image;  // what of it is in its own right: name, capabilities, scheduling, robust futexes
    bool own_descriptors = false, own_folders = false;  // not those of the process's first thread
    std::string own_ids;                            // the lines of `status` that schema::OwnIds is made of
    bool has_pending = false, has_filters = false;  // signals of its own; seccomp
};

struct StoppedThread {
    pid_t tid = 0;
    bool leader_dead = false;  // the main thread has exited while others live: nothing of it can be read
    ptrace::Registers registers = {};
    std::uint64_t mask = 0;
    std::optional<ptrace::CallDispatch> dispatch;  // not while the agent runs in it
    std::int64_t timeout_left = -1;  // ns of the relative timeout that it sleeps in; -1: none known
    // Of a thread that another member traces (capture/stop/tracers.h): where it really stands, all signals
    // blocked, until its tracer takes it back. `registers` and `mask` are those that its tracer sees.
    std::optional<ptrace::Registers> parked;
    pid_t traced_by = 0;              // the tracer's process
    bool stopped_by_it = false;       // its tracer sees it in a stop: its registers are what they are
    ptrace::XState xstate = {};       // of one that lives; the pass collect has read it
    bool filters_suspended = false;   // they would forbid what the agent calls
    bool landlock_forbidden = false;  // they forbid to ask whether Landlock restricts it
    AskLandlock ask_landlock = AskLandlock::never;  // the pass collect has decided it
    std::optional<AskedOfThread> asked = {};        // of one that lives; the pass collect has asked
};

struct StoppedProcess {
    pid_t pid = 0;
    pid_t living =
        0;  // a thread that lives: the main thread, unless it has exited; /proc shows memory by it only
    proc::Stat stat;
    std::vector<StoppedThread> threads;  // the main thread first
    bool job_stopped = false;            // stood still by job control before we came
    int stop_signal = 0;

    const SessionRegion* region = nullptr;  // that it has mapped
    bool registered = false;  // it has a slot; if not it is a child of a raw clone, with its parent's
                              // memory
    ProgramAddress region_at;
    ProgramAddress door;
    std::int64_t timing_tls = 0;  // Door::timing_tls
    std::int32_t rseq_tls = 0;    // Door::rseq_tls
    // It runs the program that has loaded the library by its own rules (valgrind): the library's variables of
    // a thread aren't where the processor's thread pointer leads, and what calls the kernel is not libc.
    bool simulates = false;
    bool unreadable = false;  // the kernel doesn't let us read its memory
    std::uint64_t born_ns = 0;
    bool stop_hidden = false;             // hide_stop() has seen to what the stop has left in its registers
    std::int64_t clock_shift = 0;         // its CLOCK_MONOTONIC is ahead of ours by so much, ns
    std::vector<pid_t> old_snapshots;     // dead copy-on-write children of earlier checkpoints, to be reaped
    std::optional<proc::InnerIds> inner;  // what it calls itself, in a pid namespace of the group's own
    bool bears_inside = false;            // its children are born into such a one
    // The same, and nobody is in there: a copy of it would be the first process, or can't be born at all.
    std::optional<schema::EmptyPids> empty_pids = {};
    // A copy of it would be under its seccomp filters, of which only we can free it.
    [[nodiscard]] bool has_suspended_filters() const {
        return std::ranges::any_of(threads, &StoppedThread::filters_suspended);
    }
    // Whether a child of its own calls itself otherwise than we do.
    [[nodiscard]] bool has_inner_children() const { return inner || bears_inside; }

    // Opened when it is needed: there may be more processes than descriptors, and the pid of a process that
    // we trace is its own until we have waited for its end. None if the process has been killed, or, where
    // the main thread has exited, if the kernel can't name another (PIDFD_THREAD, since Linux 6.9).
    [[nodiscard]] Fd open_pidfd() const {
        constexpr unsigned pidfd_thread = O_EXCL;
        return Fd(static_cast<int>(::syscall(SYS_pidfd_open, living, living == pid ? 0U : pidfd_thread)));
    }

    // Of the thread that stands for the process.
    [[nodiscard]] const proc::Status& status() const { return first_living().asked->status; }

    [[nodiscard]] const StoppedThread& first_living() const {
        for (const auto& thread : threads)
            if (!thread.leader_dead) return thread;
        return threads.front();
    }
};

struct Zombie {
    pid_t pid = 0;
    proc::Stat stat;
    std::uint64_t born_ns = 0;
    std::optional<proc::InnerIds> inner = {};
};

}  // namespace cairn::capture
