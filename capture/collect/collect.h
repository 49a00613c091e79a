// Pass 3: what is known of a process that stands still, resource by resource. Each fills its part of
// schema::Process.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "capture/group.h"
#include "capture/stop/tracers.h"
#include "common/agent.h"
#include "common/ipc_map.h"
#include "common/schema/process.h"

namespace cairn::capture {

// Kernel's id -> the id that the programs know.
using ToProgram = std::function<ProgramId(KernelId)>;

// ids, credentials, limits, name, layout of memory: from /proc and from the agent's answers.
[[nodiscard]] Result<> collect_identity(const StoppedProcess& process, const AgentProcess& answers,
                                        const ToProgram& to_program, schema::Process& image);

// Fields of /proc/PID/status.
void read_ids(const std::string& text, std::uint32_t (&ids)[4]);  // Uid, Gid
[[nodiscard]] std::vector<std::uint32_t> groups_of(const std::string& text);
[[nodiscard]] std::uint32_t umask_of(const std::string& text);

// What anybody may ask about a thread of the process: its status, scheduling, robust futexes.
[[nodiscard]] AskedOfThread ask_of_thread(const StoppedProcess& process, pid_t tid, proc::Status status);

// StoppedThread::xstate of all threads. By ptrace: before the agent runs.
[[nodiscard]] Result<> read_states(StoppedProcess& process);

// registers, masks ... of each thread, and what is pending for the process. By ptrace: before the agent runs.
// What was asked of the threads, and their states, move into the image.
[[nodiscard]] Result<> collect_threads(StoppedProcess& process, const ToProgram& to_program, IpcMap& ipc,
                                       schema::Process& image);

// Signals that nobody has taken yet, of the process and of its threads.
[[nodiscard]] Result<> collect_pending(const StoppedProcess& process, const ToProgram& to_program,
                                       schema::Process& image);

// Adds what timers have sent since, and tells these timers so. Last of all, by ptrace: when no agent runs any
// more, `asked_for` after the timers were asked.
[[nodiscard]] Result<> collect_firings(const StoppedProcess& process, std::chrono::nanoseconds asked_for,
                                       const ToProgram& to_program, schema::Process& image);

// By whom of the group each thread is traced, and in which stop it stands for this tracer.
void add_tracing(const StoppedProcess& process, const Tracers& tracers, const ToProgram& to_program,
                 schema::Process& image);

// What only the thread itself can say.
void add_thread_answers(const std::vector<AgentThread>& answers, schema::Process& image);

// actions, interval timers, POSIX timers.
[[nodiscard]] Result<> collect_signals(const StoppedProcess& process, const AgentProcess& answers,
                                       const ToProgram& to_program, schema::Process& image);

// A POSIX timer as /proc/PID/timers lists it; times are the agent's to tell.
struct KernelTimer {
    schema::PosixTimer image;  // but for the two below
    KernelId tid;              // SIGEV_THREAD_ID
    std::int32_t clock = 0;    // may name a task by the kernel's id (common/cpu_clock.h)
};
[[nodiscard]] Result<std::vector<KernelTimer>> list_timers(pid_t pid);

// A zombie: its ids and its status are all that is left of it.
[[nodiscard]] schema::Process collect_zombie(const Zombie& zombie, const ToProgram& to_program);

// Whether the session's leader and the group's live, and aren't `ours`. Their ids are no restart's to have:
// the shell of a terminal, the script that launched a program. (Who was never reaped has ended: its id is
// free by then.)
void note_outer_leaders(const proc::Stat& stat, const std::set<pid_t>& ours, schema::Process& image);

// What we can't save is refused before anything is asked of the process. (Seccomp filters, which could kill
// it for the agent's system calls, are collect_threads()'s to judge.)
[[nodiscard]] Result<> refuse_unsupported(const StoppedProcess& process);

// What processes have in common by clone(2) each of them would have for itself after a restart.
[[nodiscard]] Result<> refuse_sharing(const std::map<pid_t, StoppedProcess>& processes);

}  // namespace cairn::capture
