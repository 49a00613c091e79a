#include "capture/glance.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "capture/agent_frame.h"
#include "capture/checkpoint.h"
#include "capture/stop/stopping.h"

namespace cairn::capture {
namespace {

using wire::Glance;
using wire::GlancedThread;

// What is over soon as a rule: a checkpoint that is under way; a thread's sleep for a disk, or until its
// vfork child execs.
constexpr std::chrono::milliseconds checkpoint_patience{2000}, sleeper_patience{20}, glance_nap{5};
// A thread that was interrupted is waited for in any case, so that it doesn't notice (~Stopping); on a busy
// machine it may be long in getting a processor.
constexpr auto longest_stop = std::chrono::milliseconds(500);
constexpr std::size_t most_of_stack = 256 << 10, most_of_stacks = 4 << 20, least_of_stack = 16 << 10;
// What a function may use below its stack pointer (System V ABI, AMD64, 3.2.2).
constexpr std::uint64_t red_zone = 128;

std::string task_file(pid_t pid, pid_t tid, const char* file) {
    auto text = proc::read_file(fmt::format("/proc/{}/task/{}/{}", pid, tid, file)).value_or("");
    while (text.ends_with('\n')) text.pop_back();
    return text;
}

// Calls whose first argument is a descriptor, among those that wait.
constexpr std::array descriptor_calls = {
    SYS_read,      SYS_write,      SYS_readv,           SYS_writev,      SYS_pread64,      SYS_pwrite64,
    SYS_recvfrom,  SYS_recvmsg,    SYS_recvmmsg,        SYS_sendto,      SYS_sendmsg,      SYS_sendmmsg,
    SYS_accept,    SYS_accept4,    SYS_connect,         SYS_epoll_wait,  SYS_epoll_pwait,  SYS_flock,
    SYS_fcntl,     SYS_fsync,      SYS_fdatasync,       SYS_ioctl,       SYS_epoll_pwait2, SYS_io_uring_enter,
    SYS_fallocate, SYS_getdents64, SYS_mq_timedreceive, SYS_mq_timedsend};

// proc(5): the number, six arguments, stack pointer and program counter; "running", or -1 and the last two.
void read_call(pid_t pid, GlancedThread& thread) {
    const std::string text = task_file(pid, thread.real.number(), "syscall");
    std::array<unsigned long, 6> words{};
    long call = -1;
    if (std::sscanf(text.c_str(), "%ld %lx %lx %lx %lx %lx %lx", &call, words.data(), &words[1], &words[2],
                    &words[3], &words[4], &words[5]) != 7)
        return;
    thread.call = call;
    thread.arguments.assign(words.begin(), words.end());
    if (std::ranges::find(descriptor_calls, call) == descriptor_calls.end()) return;
    const auto number = static_cast<std::int32_t>(words[0]);
    thread.object = proc::read_link(fmt::format("/proc/{}/fd/{}", pid, number)).value_or("");
}

GlancedThread look_at_thread(const SessionRegions& regions, pid_t pid, pid_t tid, const proc::Stat& stat) {
    GlancedThread thread;
    thread.real = KernelId(tid);
    thread.tid = regions.to_program(thread.real);
    thread.name = stat.comm;
    thread.state = std::string(1, stat.state);
    thread.wait_channel = task_file(pid, tid, "wchan");
    if (thread.wait_channel == "0") thread.wait_channel.clear();
    read_call(pid, thread);
    return thread;
}

struct Before {
    std::vector<proc::MapLine> maps;
    std::vector<GlancedThread> threads;
    bool ended = false, asleep_for_good = false;
    pid_t tracer = 0;
};

// While it runs.
Before look_before(const SessionRegions& regions, pid_t pid) {
    Before seen;
    const auto stat = proc::stat(pid);
    seen.ended = !stat || all_dead(*stat, pid);
    if (seen.ended) return seen;
    for (const pid_t tid : proc::tasks(pid).value_or(std::vector<pid_t>())) {
        const auto its = proc::stat(pid, tid);
        if (!its || dead(its->state) || (is_kernels(*its) && tid != pid)) continue;
        seen.asleep_for_good = seen.asleep_for_good || its->state == 'D';
        const auto status = task_file(pid, tid, "status");
        if (const auto at = status.find("\nTracerPid:"); at != std::string::npos && seen.tracer == 0)
            seen.tracer = std::atoi(status.c_str() + at + sizeof "\nTracerPid:" - 1);
        seen.threads.push_back(look_at_thread(regions, pid, tid, *its));
    }
    return seen;
}

// "": it can be stopped.
std::string why_not(const Before& seen) {
    if (seen.ended) return "it has ended";
    if (seen.tracer != 0) return fmt::format("it is being traced by {}", proc::label(seen.tracer));
    if (seen.asleep_for_good)
        return "a thread of it sleeps where nothing wakes it (state D: a disk, or a vfork)";
    return {};
}

ProgramAddress end_of_mapping(const std::vector<proc::MapLine>& maps, ProgramAddress address) {
    const auto line = std::ranges::find_if(
        maps, [&](const auto& each) { return each.start <= address && address < each.end; });
    return line == maps.end() ? ProgramAddress() : line->end;
}

// Where the program is that a thread works for which makes the call for the rest of a transfer.
ptrace::Registers as_program_sees(pid_t pid, ProgramAddress door, ptrace::Registers registers) {
    const auto finish = ptrace::read_object<std::uint64_t>(pid, door + offsetof(Door, finish));
    const auto frame = finish_frame_of(registers, finish.value_or(0));
    if (!frame.known()) return registers;
    const auto saved = ptrace::read_object<FinishFrame>(pid, frame);
    if (!saved) return registers;
    registers = registers_of(saved->frame, registers);
    registers.orig_rax = saved->call;
    return registers;
}

// A thread that stands still. `maps` are as they were before; a stack that has come since is found anew.
void copy_thread(const StoppedProcess& process, std::vector<proc::MapLine>& maps, GlancedThread& thread) {
    const pid_t pid = process.living;
    const auto stopped = ptrace::registers(thread.real.number());
    if (!stopped) return;
    const auto registers = as_program_sees(pid, process.door, *stopped);
    thread.registers.resize(sizeof registers);
    std::memcpy(thread.registers.data(), &registers, sizeof registers);
    ProgramAddress top(registers.rsp);
    ProgramAddress end = end_of_mapping(maps, top);
    if (!end.known()) {
        maps = proc::maps(pid, false).value_or(std::move(maps));
        end = end_of_mapping(maps, top);
    }
    if (!end.known()) return;
    if (end_of_mapping(maps, top - red_zone) == end) top = top - red_zone;
    thread.stack_at = top;
    thread.cut = end - top > thread.stack.size();
    thread.stack.resize(std::min<std::uint64_t>(end - top, thread.stack.size()));
    if (!ptrace::read_memory(pid, top, std::as_writable_bytes(std::span(thread.stack)))) thread.stack.clear();
}

Result<> stop_all(Stopping& group, pid_t pid) {
    const auto until = Clock::now() + longest_stop;
    for (;;) {
        const bool complete = TRY(seize_new_threads(group, pid));
        drain_events(group);
        if (complete && all_still(group, pid)) return {};
        if (!proc::stat(pid) || (complete && group.threads.of(pid).empty()))
            return fail("it has ended, or executes another program");
        if (!group.processes[pid].refused_since.empty())
            return fail("it may not be traced (another user's, or not dumpable)");
        if (Clock::now() > until) return fail("not all of its threads stood still in time");
        await_event();
    }
}

// The copies' places are made, and touched, before anybody stands still.
void make_room(std::vector<GlancedThread>& threads) {
    const auto each =
        std::clamp(most_of_stacks / std::max<std::size_t>(threads.size(), 1), least_of_stack, most_of_stack);
    for (auto& thread : threads) thread.stack.resize(each);
}

void copy_stacks(Stopping& group, const StoppedProcess& process, std::vector<proc::MapLine>& maps,
                 Glance& found) {
    for (auto& thread : found.threads) {
        const auto* seized = group.threads.find(thread.real.number());
        if (seized != nullptr && seized->still) copy_thread(process, maps, thread);
    }
}

// All threads stand still: the interpreter's lists don't change.
void copy_python(const python::Interpreter& python, pid_t pid, Glance& found) {
    constexpr python::Most most{.functions = 300, .reads = 30'000};  // a read takes about a microsecond
    const auto all = python::threads_of(python, most, [&](ProgramAddress at, std::span<std::byte> to) {
        return ptrace::read_memory(pid, at, to).has_value();
    });
    for (auto& thread : found.threads) {
        ptrace::Registers registers{};
        if (thread.registers.size() != sizeof registers) continue;
        std::memcpy(&registers, thread.registers.data(), sizeof registers);
        const auto its = std::ranges::find(all, registers.fs_base, &python::Thread::fs_base);
        if (its == all.end()) continue;
        thread.python_cut = its->cut;
        for (const auto& frame : its->frames)
            thread.python.push_back({frame.function, frame.file, frame.line, frame.entry});
    }
}

void stop_and_copy(const SessionRegions& regions, pid_t pid, const python::Interpreter& python,
                   Glance& found) {
    // Who is only looked at has no part in a checkpoint: nothing is told, nobody is looked for.
    Reporter nobody(-1, longest_stop);
    const Request nothing;
    Outsiders outsiders(nothing, regions);
    auto maps = proc::maps(pid, false).value_or(std::vector<proc::MapLine>());
    for (const auto& line : maps) {
        if (line.name != "[vdso]") continue;
        found.vdso_at = line.start;
        found.vdso.resize(line.end - line.start);
        if (!ptrace::read_memory(pid, line.start, std::as_writable_bytes(std::span(found.vdso))))
            found.vdso.clear();
    }
    make_room(found.threads);
    auto begin = Clock::now();
    {
        Stopping group(regions, nobody, outsiders, 0);
        auto& tracked = group.processes[pid];
        tracked.process.pid = pid;
        if (find_doors(group, tracked.process)) {
            tracked.stage = Stage::seized;
            begin = Clock::now();
            auto stopped = stop_all(group, pid);
            copy_stacks(group, tracked.process, maps, found);
            if (stopped)
                copy_python(python, pid, found);
            else
                found.problem = std::move(stopped.error().what);
        } else {
            found.problem = tracked.process.unreadable
                                ? "it may not be traced (another user's, or not dumpable)"
                                : "it hasn't registered, or doesn't load libcairn.so (a static program)";
        }
    }
    found.pause_ns = std::chrono::nanoseconds(Clock::now() - begin).count();
    for (auto& thread : found.threads)
        if (thread.registers.empty()) thread.stack.clear();
}

// A thread that stopped too late, when all others had gone on already.
void let_go_of_late() {
    int status = 0;
    for (pid_t tid = 0; (tid = ::waitpid(-1, &status, __WALL | WNOHANG)) > 0;)
        if (WIFSTOPPED(status))
            (void)ptrace::detach(tid, status >> 16 == ptrace::event_stop ? 0 : WSTOPSIG(status));
}

}  // namespace

Glance glance(const SessionRegions& regions, pid_t pid, const python::Interpreter& python) {
    let_go_of_late();
    Glance found;
    found.pid = KernelId(pid);
    const auto begin = Clock::now();
    auto seen = look_before(regions, pid);
    const auto is_passing = [&] {
        if (seen.ended) return false;
        if (seen.tracer == 0) return seen.asleep_for_good && Clock::now() < begin + sleeper_patience;
        const auto tracer = proc::stat(seen.tracer);
        return (!tracer || tracer->comm == "cairn-capture") && Clock::now() < begin + checkpoint_patience;
    };
    while (is_passing()) {
        std::this_thread::sleep_for(glance_nap);
        seen = look_before(regions, pid);
    }
    found.threads = std::move(seen.threads);
    found.problem = why_not(seen);
    if (found.problem.empty()) stop_and_copy(regions, pid, python, found);
    return found;
}

}  // namespace cairn::capture
