// Runs the hijack library's agent in a stopped process: the scope in which its threads are not at the
// program's own registers. See common/agent.h for what happens if we die in between.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "capture/group.h"
#include "capture/report.h"
#include "common/agent.h"
#include "common/program_fd.h"

namespace cairn::capture {

// A process that is to be read and killed.
struct SnapshotChild {
    pid_t pid = 0;
    Fd pidfd;
};

class AgentRun {
  public:
    // `index`: of a place in Region::talks of the process's region, for this process alone. `ask_keys`: the
    // agent may ask about keyrings.
    // `leader`: the thread that takes commands; 0: the first that lives.
    AgentRun(StoppedProcess& process, std::uint32_t index, std::uint64_t capture, bool ask_keys,
             pid_t leader = 0);
    AgentRun(const AgentRun&) = delete;
    AgentRun& operator=(const AgentRun&) = delete;
    AgentRun(AgentRun&&) = default;
    AgentRun& operator=(AgentRun&&) = delete;
    // On an error path whoever is still inside is detached by the kernel, sees that the capture's number is
    // no longer the region's, and puts itself back.
    ~AgentRun() = default;

    // Each pair (ask, wait) is split so that all processes of a group work at the same time.
    [[nodiscard]] Result<> start();  // the first thread enters
    // Begins with agent_collect.
    [[nodiscard]] Result<> collect();
    [[nodiscard]] Result<> ask(AgentCommand command, std::uint64_t argument = 0, std::uint64_t argument2 = 0);
    [[nodiscard]] Result<std::int64_t> wait(const Reporter& reporter);  // result of the command
    [[nodiscard]] Result<> start_siblings(ProgramAddress scratch);      // after agent_map of scratch_size()
    [[nodiscard]] Result<> wait_siblings(const Reporter& reporter);
    // They have answered, and stop by themselves until leave_siblings() has use of it.
    [[nodiscard]] Result<> call_siblings();

    [[nodiscard]] std::uint64_t scratch_size() const;  // bytes for the siblings, 0 if there are none
    [[nodiscard]] Result<> write_timer_ids(const std::vector<std::int32_t>& ids);
    [[nodiscard]] Result<> write_detached(const std::vector<AgentSpan>& spans);  // see Door::detach
    [[nodiscard]] Result<AgentProcess> process_answers() const;
    // mincore(2) for whole pages from `start` on: a byte for each.
    [[nodiscard]] Result<std::vector<std::uint8_t>> resident(ProgramAddress start, std::uint64_t length,
                                                             const Reporter& reporter);
    // Descriptors of the process are sent to the socket of this name; at most max_lent.
    [[nodiscard]] Result<> lend(std::span<const ProgramFd> numbers, std::span<const std::byte> address,
                                const Reporter& reporter);
    // The notification by a thread that this process has asked for. `sockets`: at most max_lent.
    [[nodiscard]] Result<AgentRenewal> renew(ProgramFd queue, std::span<const ProgramFd> sockets,
                                             const Reporter& reporter);
    [[nodiscard]] Result<std::vector<AgentThread>> thread_answers()
        const;  // in the order of StoppedProcess::threads
    // The copy-on-write child, when it has let go of its descriptors. What another user's process says of it
    // is looked at: it has the name and the session of one, and runs as the same user.
    [[nodiscard]] Result<SnapshotChild> wait_snapshot(const Reporter& reporter) const;

    // The process is no child subreaper for the moment, or is one again.
    [[nodiscard]] Result<> step_back(bool back, const Reporter& reporter);

    // Whoever isn't needed inside any more begins to stop; leave() waits for them. So all stop at the same
    // time, and not one after the other.
    [[nodiscard]] Result<> begin_to_leave();
    // Everything is put back: registers, masks, scratch memory.
    [[nodiscard]] Result<> leave(const Reporter& reporter);
    [[nodiscard]] Result<> leave_siblings(const Reporter& reporter);  // the leader stays inside

    // The leader stands still for the moment, somewhere in the agent, so that it can be asked by ptrace.
    [[nodiscard]] Result<> hold(const Reporter& reporter);
    [[nodiscard]] Result<> go_on();
    // The process is another object now, of the same threads.
    void rebind(StoppedProcess& process) { process_ = &process; }

  private:
    [[nodiscard]] AgentThread make_thread(const StoppedThread& thread, bool leader) const;
    template <class Room>
    [[nodiscard]] Result<> enter(const StoppedThread& thread, ProgramAddress at);
    [[nodiscard]] Result<> call(std::size_t index);  // to its stop
    [[nodiscard]] Result<> await_stop(const StoppedThread& thread, const Reporter& reporter) const;
    [[nodiscard]] Result<> bring_back(std::size_t index, const Reporter& reporter);
    [[nodiscard]] Result<SnapshotChild> confirm_snapshot(pid_t pid) const;
    [[nodiscard]] Result<> keep_running(std::size_t index) const;
    [[nodiscard]] Result<> keep_running(std::size_t awaited, Clock::time_point& looked_at_all,
                                        const Reporter& reporter) const;

    StoppedProcess* process_;
    Talk* talk_;
    std::uint32_t index_;
    std::uint64_t capture_;
    bool ask_keys_;
    std::uint32_t sequence_ = 0, asked_ = 0;  // the command that was given last
    ProgramAddress scratch_;
    bool stepped_back_ = false, held_ = false;
    std::uint64_t entry_ = 0;   // where the agent begins
    std::size_t leader_ = 0;    // index of the thread that takes commands
    std::vector<bool> inside_;  // by thread
    std::vector<bool> called_;  // the same: interrupted, and not yet seen to stop
};

}  // namespace cairn::capture
