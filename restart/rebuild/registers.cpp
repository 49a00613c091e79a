#include "restart/rebuild/registers.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "common/agent.h"
#include "common/ipc_arguments.h"
#include "common/pid_arguments.h"
#include "common/proc.h"
#include "common/ptrace/restart_code.h"
#include "common/ptrace/thread.h"
#include "common/timeout.h"

namespace cairn::restart {
namespace {

Result<> set_thread_cpu_time(const Rebuilding& rebuilding, const schema::Thread& thread, pid_t tid,
                             const ptrace::Registers& registers) {
    const auto offset = TRY(ptrace::read_object<std::int64_t>(
        rebuilding.pid, rebuilding.process->door + offsetof(Door, cpu_tls)));
    // Without a place for notes there is none for this, whatever the library says (capture/group.h).
    if (offset == 0 || rebuilding.process->timing_tls == 0) return {};
    // "time on a processor, time waiting for one, slices", ns
    const auto text = proc::read_file(fmt::format("/proc/{}/task/{}/schedstat", rebuilding.pid, tid));
    const std::int64_t used = text ? std::atoll(text->c_str()) : 0;
    return ptrace::write_object(rebuilding.pid,
                                ProgramAddress(registers.fs_base) + static_cast<std::uint64_t>(offset),
                                thread.cpu_ns - used);
}

// A call that was interrupted goes on waiting for what was left. One that a tracer holds before it is made
// has all of its time still to come, and what the tracer sees of it is the program's.
Result<> set_timeout(const Rebuilding& rebuilding, const schema::Thread& thread,
                     ptrace::Registers& registers) {
    const pid_t pid = rebuilding.pid;
    const bool goes_on = to_be_made_again(registers);
    if (goes_on) {
        if (const auto left = shorten_timeout(registers, thread.timeout_left)) {
            const std::array<std::int64_t, 2> value = {left->seconds, left->nanoseconds};
            CHECK_OK(ptrace::write_object(pid, left->address, value));
        }
    }
    if (rebuilding.process->timing_tls == 0) return {};  // no library in it that would have noted anything
    // The library's note goes by this machine's clock.
    const auto at =
        ProgramAddress(registers.fs_base) + static_cast<std::uint64_t>(rebuilding.process->timing_tls);
    if (auto note = ptrace::read_object<TimingNote>(pid, at)) {
        timespec now = {};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        note->began_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec + rebuilding.translation.clock_shift -
                         (goes_on ? note->length_ns - thread.timeout_left : 0);
        CHECK_OK(ptrace::write_object(pid, at, *note));
    }
    return {};
}

}  // namespace

Result<> set_cpu_time(const Rebuilding& rebuilding) {
    const schema::Process& process = *rebuilding.process;
    const auto stat = TRY(proc::stat(rebuilding.pid));
    constexpr std::int64_t second_us = 1'000'000, second_ns = 1'000'000'000;
    const std::int64_t tick_us = second_us / ::sysconf(_SC_CLK_TCK);
    const auto clock =
        static_cast<clockid_t>(~static_cast<unsigned>(rebuilding.pid) << 3 | 2);  // clock_getcpuclockid(3)
    timespec used = {};
    if (::clock_gettime(clock, &used) != 0) return fail_errno("process {}: its CPU clock", process.pid);
    const CpuBase base = {process.cpu_ns - (used.tv_sec * second_ns + used.tv_nsec),
                          process.cpu_user_us - static_cast<std::int64_t>(stat.utime) * tick_us,
                          process.cpu_system_us - static_cast<std::int64_t>(stat.stime) * tick_us,
                          process.cpu_children_user_us, process.cpu_children_system_us};
    return ptrace::write_object(rebuilding.pid, process.door + offsetof(Door, cpu), base);
}

Result<> set_thread(const Rebuilding& rebuilding, std::size_t index) {
    const auto& thread = rebuilding.process->threads[index];
    const pid_t tid = rebuilding.thread_ids[index].now.number();
    ptrace::Registers registers = {};
    if (thread.registers.size() != sizeof registers)
        return fail_code(ExitCode::damaged, "process {}: registers of thread {} are of another size",
                         rebuilding.process->pid, thread.tid);
    std::memcpy(&registers, thread.registers.data(), sizeof registers);
    const auto& translation = rebuilding.translation;
    translate_pid_arguments<ProgramId>(registers, translation.to_kernel);
    translate_ipc_arguments(
        registers, [&](IpcKind kind, std::int32_t id) { return ipc_to_real(*translation.ipc, kind, id); });
    // The kernel's restart block has gone with the old thread: the call is made anew, with what is left of
    // its timeout.
    if (static_cast<std::int64_t>(registers.orig_rax) >= 0 && says(registers, RestartCode::by_block))
        say(registers, RestartCode::unless_any_handler);
    if (thread.timeout_left >= 0) CHECK_OK(set_timeout(rebuilding, thread, registers));
    CHECK_OK(set_thread_cpu_time(rebuilding, thread, tid, registers));
    CHECK_OK(ptrace::set_xstate(tid, thread.xstate));
    CHECK_OK(ptrace::set_registers(tid, registers));
    return ptrace::set_mask(tid, thread.blocked);
}

}  // namespace cairn::restart
