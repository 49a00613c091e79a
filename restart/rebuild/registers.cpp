#include "restart/rebuild/registers.h"

#include <time.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "common/agent.h"
#include "common/ipc_arguments.h"
#include "common/pid_arguments.h"
#include "common/ptrace/restart_code.h"
#include "common/ptrace/thread.h"
#include "common/timeout.h"

namespace cairn::restart {
namespace {

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
    CHECK_OK(ptrace::set_xstate(tid, thread.xstate));
    CHECK_OK(ptrace::set_registers(tid, registers));
    CHECK_OK(ptrace::set_mask(tid, thread.blocked));
    if (!thread.dispatch) return {};
    const auto& dispatch = *thread.dispatch;
    auto set = ptrace::set_call_dispatch(
        tid, ptrace::CallDispatch{dispatch.selector, dispatch.start, dispatch.length});
    if (!set)
        return std::unexpected(
            std::move(set.error())
                .in(fmt::format("process {}: thread {} had system calls handed to itself (prctl, "
                                "PR_SET_SYSCALL_USER_DISPATCH), which needs Linux 6.4",
                                rebuilding.process->pid, thread.tid)));
    return {};
}

}  // namespace cairn::restart
