// ptrace(2) of one thread, typed. A tracer is a thread: all calls for a tracee come from the thread that
// seized it.
#pragma once

#include <signal.h>
#include <sys/user.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/program_address_text.h"

namespace cairn::ptrace {

using Registers = user_regs_struct;
using Bytes = std::vector<std::uint8_t>;

// Stops by PTRACE_EVENT_STOP carry this in status >> 16.
inline constexpr int event_stop = 128;
// What WSTOPSIG() says of a stop at a system call, with PTRACE_O_TRACESYSGOOD.
inline constexpr int call_stop = SIGTRAP | 0x80;

[[nodiscard]] Result<> seize(pid_t tid, unsigned long options);
[[nodiscard]] Result<> interrupt(pid_t tid);
// From here on until it is detached no seccomp filter is asked about what this stopped thread calls, and the
// strict mode lets it (PTRACE_O_SUSPEND_SECCOMP, Linux 4.3). `options`: those that it was seized with. EPERM:
// the caller has no CAP_SYS_ADMIN in the first user namespace, or a filter itself; EINVAL: a kernel without
// CONFIG_CHECKPOINT_RESTORE.
[[nodiscard]] Result<> suspend_filters(pid_t tid, unsigned long options);
[[nodiscard]] Result<> heed_filters(pid_t tid, unsigned long options);
[[nodiscard]] Result<> resume(pid_t tid, int signal);
// Up to the entry of the next system call, or its end, whichever comes first (PTRACE_SYSCALL).
[[nodiscard]] Result<> resume_to_call(pid_t tid, int signal);
[[nodiscard]] Result<> detach(pid_t tid, int signal);

[[nodiscard]] Result<Registers> registers(pid_t tid);
[[nodiscard]] Result<> set_registers(pid_t tid, const Registers& registers);
// The XSAVE area in the kernel's standard format (NT_X86_XSTATE), without the zeros at its end: most threads
// use none of the registers that take the most room (of AMX's 11 KiB some 2.6 KiB are left), and there may
// be thousands of them.
struct XState {
    Bytes bytes;
    std::uint32_t whole_size = 0;
};
[[nodiscard]] Result<XState> xstate(pid_t tid);
// Such bytes, or a whole area.
[[nodiscard]] Result<> set_xstate(pid_t tid, const Bytes& state);
[[nodiscard]] Result<std::uint64_t> mask(pid_t tid);
[[nodiscard]] Result<> set_mask(pid_t tid, std::uint64_t mask);
// Queued signals, oldest first, without taking them off: of the thread, or of the whole process.
[[nodiscard]] Result<std::vector<siginfo_t>> pending(pid_t tid, bool of_process);

struct Rseq {
    ProgramAddress address;
    std::uint32_t size = 0, signature = 0, flags = 0;
};
// None: this kernel doesn't tell (Linux before 5.13).
[[nodiscard]] Result<std::optional<Rseq>> rseq(pid_t tid);

// Which system calls of a thread the kernel hands to it as SIGSYS instead of making them (prctl(2),
// PR_SET_SYSCALL_USER_DISPATCH: Wine): all but those of code from `start` on, as long as the byte at
// `selector` says so (0: always).
struct CallDispatch {
    ProgramAddress selector, start;
    std::uint64_t length = 0;
};
// None: they are all made; or this kernel doesn't tell (Linux before 6.4).
[[nodiscard]] Result<std::optional<CallDispatch>> call_dispatch(pid_t tid);
[[nodiscard]] Result<> set_call_dispatch(pid_t tid, const std::optional<CallDispatch>& dispatch);

// Memory of a process through process_vm_readv/writev: page protections hold.
[[nodiscard]] Result<> read_memory(pid_t pid, ProgramAddress address, std::span<std::byte> to);
[[nodiscard]] Result<> write_memory(pid_t pid, ProgramAddress address, std::span<const std::byte> from);
// Several pieces of `size` bytes each, in a call for a thousand of them.
struct MemoryPieces {
    std::vector<ProgramAddress> at;
    std::vector<void*> ours;  // as many, each of `size` bytes
    std::size_t size = 0;
};
[[nodiscard]] Result<> read_memory(pid_t pid, const MemoryPieces& pieces);
[[nodiscard]] Result<> write_memory(pid_t pid, const MemoryPieces& pieces);
// The same through /proc/PID/mem: for a tracer, page protections don't hold.
[[nodiscard]] Result<> read_memory_forced(pid_t pid, ProgramAddress address, std::span<std::byte> to);
// The same for who reads in many pieces, of one process after the other: opening /proc/PID/mem for each costs
// as much as reading a page. The process has to be there, and must not execute a program, from the first
// piece of its memory to the last.
class ForcedReader {
  public:
    [[nodiscard]] Result<> read(pid_t pid, ProgramAddress address, std::span<std::byte> to);

  private:
    pid_t pid_ = 0;
    Fd memory_;
};
[[nodiscard]] Result<> write_memory_forced(pid_t pid, ProgramAddress address,
                                           std::span<const std::byte> from);

template <class T>
[[nodiscard]] Result<T> read_object(pid_t pid, ProgramAddress address) {
    T object;
    CHECK_OK(read_memory(pid, address, std::as_writable_bytes(std::span(&object, 1))));
    return object;
}

template <class T>
[[nodiscard]] Result<> write_object(pid_t pid, ProgramAddress address, const T& object) {
    return write_memory(pid, address, std::as_bytes(std::span(&object, 1)));
}

}  // namespace cairn::ptrace
