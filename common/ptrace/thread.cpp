#include "common/ptrace/thread.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <span>

#include "common/cpu_state.h"
#include "common/fd.h"

namespace cairn::ptrace {
namespace {

// ptrace's own interface is untyped: addresses and numbers travel as pointers.
long request(__ptrace_request what, pid_t tid, std::uint64_t address, const void* data) {
    return ::ptrace(what, tid, reinterpret_cast<void*>(address), const_cast<void*>(data));
}

template <class T>
void* as_number(T value) {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(value));
}

Result<> check(long result, const char* what, pid_t tid) {
    if (result < 0) return fail_errno("ptrace {} of {}", what, tid);
    return {};
}

Result<Fd> open_memory(pid_t pid, int flags) {
    Fd fd(::open(fmt::format("/proc/{}/mem", pid).c_str(), flags | O_CLOEXEC));
    if (!fd) return fail_errno("/proc/{}/mem", pid);
    return fd;
}

}  // namespace

Result<> seize(pid_t tid, unsigned long options) {
    return check(request(PTRACE_SEIZE, tid, 0, as_number(options)), "seize", tid);
}

Result<> suspend_filters(pid_t tid, unsigned long options) {
    return check(request(PTRACE_SETOPTIONS, tid, 0, as_number(options | PTRACE_O_SUSPEND_SECCOMP)),
                 "suspend filters", tid);
}

Result<> heed_filters(pid_t tid, unsigned long options) {
    return check(request(PTRACE_SETOPTIONS, tid, 0, as_number(options)), "heed filters", tid);
}

Result<> interrupt(pid_t tid) {
    return check(request(PTRACE_INTERRUPT, tid, 0, nullptr), "interrupt", tid);
}

Result<> resume(pid_t tid, int signal) {
    return check(request(PTRACE_CONT, tid, 0, as_number(signal)), "continue", tid);
}

Result<> resume_to_call(pid_t tid, int signal) {
    return check(request(PTRACE_SYSCALL, tid, 0, as_number(signal)), "continue to a call", tid);
}

Result<> detach(pid_t tid, int signal) {
    return check(request(PTRACE_DETACH, tid, 0, as_number(signal)), "detach", tid);
}

Result<Registers> registers(pid_t tid) {
    Registers result = {};
    iovec part = {&result, sizeof result};
    CHECK_OK(check(request(PTRACE_GETREGSET, tid, NT_PRSTATUS, &part), "registers", tid));
    return result;
}

Result<> set_registers(pid_t tid, const Registers& registers) {
    Registers copy = registers;
    const iovec part = {&copy, sizeof copy};
    return check(request(PTRACE_SETREGSET, tid, NT_PRSTATUS, &part), "set registers", tid);
}

namespace {

using StateRoom = std::array<std::uint8_t, 16384>;  // with AMX about 11 KiB are used

// What of the room the kernel has filled.
Result<std::span<std::uint8_t>> read_xstate(pid_t tid, std::span<std::uint8_t> room) {
    iovec part = {room.data(), room.size()};
    CHECK_OK(check(request(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &part), "xstate", tid));
    return room.first(part.iov_len);
}

// The component behind all others, if it is a large one: of AMX's tiles, which hardly any thread uses, the
// kernel would clear and copy 8 KiB of zeros.
std::optional<StateComponent> large_last_component() {
    constexpr std::uint32_t large = 4096;
    const auto layout = cpu_state_layout();
    const auto last = std::ranges::max_element(layout, {}, &StateComponent::offset);
    if (last == layout.end() || last->size < large) return std::nullopt;
    return *last;
}

// The area of a thread, without a large last component that isn't in use.
struct ReadState {
    std::span<std::uint8_t> bytes;
    std::size_t whole_size = 0;
};

Result<ReadState> read_used_xstate(pid_t tid, StateRoom& room) {
    static const auto last = large_last_component();
    static std::atomic<std::size_t> whole_size = 0;  // as the kernel has it; 0: it hasn't told yet
    const std::size_t known = whole_size.load(std::memory_order_relaxed);
    if (last && known == std::size_t{last->offset} + last->size) {
        const auto front = TRY(read_xstate(tid, std::span(room).first(last->offset)));
        const bool in_use = (components_in_use(front) >> last->number & 1) != 0;
        if (front.size() == last->offset && !in_use) return ReadState{front, known};
    }
    const auto whole = TRY(read_xstate(tid, room));
    whole_size.store(whole.size(), std::memory_order_relaxed);
    return ReadState{whole, whole.size()};
}

}  // namespace

Result<XState> xstate(pid_t tid) {
    StateRoom room;  // NOLINT(*-pro-type-member-init)
    const auto state = TRY(read_used_xstate(tid, room));
    const auto used = state.bytes.first(size_without_zeros(state.bytes));
    return XState{Bytes(used.begin(), used.end()), static_cast<std::uint32_t>(state.whole_size)};
}

// The kernel takes an area of its own size only (xstateregs_set(), arch/x86/kernel/fpu/regset.c), which the
// thread's present one has.
Result<> set_xstate(pid_t tid, const Bytes& state) {
    StateRoom room;  // NOLINT(*-pro-type-member-init)
    const auto whole = TRY(read_xstate(tid, room));
    if (state.size() > whole.size())
        return fail("set xstate of thread {}: {} bytes, and this CPU has {}", tid, state.size(),
                    whole.size());
    std::ranges::fill(std::ranges::copy(state, whole.begin()).out, whole.end(), std::uint8_t{0});
    const iovec part = {whole.data(), whole.size()};
    return check(request(PTRACE_SETREGSET, tid, NT_X86_XSTATE, &part), "set xstate", tid);
}

Result<std::uint64_t> mask(pid_t tid) {
    std::uint64_t value = 0;
    CHECK_OK(check(request(PTRACE_GETSIGMASK, tid, sizeof value, &value), "signal mask", tid));
    return value;
}

Result<> set_mask(pid_t tid, std::uint64_t mask) {
    return check(request(PTRACE_SETSIGMASK, tid, sizeof mask, &mask), "set signal mask", tid);
}

Result<std::vector<siginfo_t>> pending(pid_t tid, bool of_process) {
    std::vector<siginfo_t> result;
    for (;;) {
        siginfo_t batch[16];
        __ptrace_peeksiginfo_args args = {};
        args.off = result.size();
        args.flags = of_process ? PTRACE_PEEKSIGINFO_SHARED : 0;
        args.nr = 16;
        const long got = ::ptrace(PTRACE_PEEKSIGINFO, tid, &args, batch);
        if (got < 0) return fail_errno("ptrace pending signals of {}", tid);
        result.insert(result.end(), batch, batch + got);
        if (got < 16) return result;
    }
}

Result<std::optional<Rseq>> rseq(pid_t tid) {
    __ptrace_rseq_configuration configuration = {};
    const long got = request(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof configuration, &configuration);
    if (got < 0) {
        if (errno == EIO || errno == EINVAL) return std::nullopt;
        return fail_errno("ptrace rseq of {}", tid);
    }
    return Rseq{ProgramAddress(configuration.rseq_abi_pointer), configuration.rseq_abi_size,
                configuration.signature, configuration.flags};
}

namespace {

// struct ptrace_sud_config, linux/ptrace.h of Linux 6.4, which Debian 12's headers haven't got.
struct DispatchConfig {
    std::uint64_t mode, selector, offset, length;
};
constexpr auto get_dispatch = static_cast<__ptrace_request>(0x4211);
constexpr auto set_dispatch = static_cast<__ptrace_request>(0x4210);

}  // namespace

Result<std::optional<CallDispatch>> call_dispatch(pid_t tid) {
    DispatchConfig config = {};
    if (request(get_dispatch, tid, sizeof config, &config) < 0) {
        if (errno == EIO || errno == EINVAL) return std::nullopt;
        return fail_errno("ptrace call dispatch of {}", tid);
    }
    if (config.mode == PR_SYS_DISPATCH_OFF) return std::nullopt;
    return CallDispatch{ProgramAddress(config.selector), ProgramAddress(config.offset), config.length};
}

Result<> set_call_dispatch(pid_t tid, const std::optional<CallDispatch>& dispatch) {
    DispatchConfig config = {.mode = PR_SYS_DISPATCH_OFF, .selector = 0, .offset = 0, .length = 0};
    if (dispatch)
        config = {PR_SYS_DISPATCH_ON, dispatch->selector.value(), dispatch->start.value(), dispatch->length};
    return check(request(set_dispatch, tid, sizeof config, &config), "set call dispatch", tid);
}

Result<> read_memory(pid_t pid, ProgramAddress address, std::span<std::byte> to) {
    const iovec local = {to.data(), to.size()};
    const iovec remote = {as_number(address.value()), to.size()};
    const ssize_t got = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got < 0) return fail_errno("memory of {} at {:#x}", pid, address);
    if (static_cast<std::size_t>(got) != to.size())
        return fail("memory of {} at {:#x}: only {} of {} bytes can be read", pid, address, got, to.size());
    return {};
}

namespace {

// process_vm_readv or process_vm_writev.
using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

Result<> transfer(Transfer call, const char* done, pid_t pid, const MemoryPieces& pieces) {
    std::vector<iovec> local, remote;
    for (std::size_t first = 0; first < pieces.at.size(); first += IOV_MAX) {
        local.clear();
        remote.clear();
        const auto end = std::min(pieces.at.size(), first + IOV_MAX);
        for (std::size_t i = first; i < end; ++i) {
            local.push_back({pieces.ours.at(i), pieces.size});
            remote.push_back({as_number(pieces.at[i].value()), pieces.size});
        }
        const ssize_t got = call(pid, local.data(), local.size(), remote.data(), remote.size(), 0);
        if (got < 0) return fail_errno("memory of {} at {:#x}", pid, pieces.at[first]);
        if (static_cast<std::size_t>(got) != (end - first) * pieces.size)
            return fail("memory of {} at {:#x}: only {} of {} bytes can be {}", pid, pieces.at[first], got,
                        (end - first) * pieces.size, done);
    }
    return {};
}

}  // namespace

Result<> read_memory(pid_t pid, const MemoryPieces& pieces) {
    return transfer(::process_vm_readv, "read", pid, pieces);
}

Result<> write_memory(pid_t pid, const MemoryPieces& pieces) {
    return transfer(::process_vm_writev, "written", pid, pieces);
}

Result<> write_memory(pid_t pid, ProgramAddress address, std::span<const std::byte> from) {
    const iovec local = {const_cast<std::byte*>(from.data()), from.size()};
    const iovec remote = {as_number(address.value()), from.size()};
    const ssize_t put = ::process_vm_writev(pid, &local, 1, &remote, 1, 0);
    if (put < 0) return fail_errno("writing to memory of {} at {:#x}", pid, address);
    if (static_cast<std::size_t>(put) != from.size())
        return fail("memory of {} at {:#x}: only {} of {} bytes can be written", pid, address, put,
                    from.size());
    return {};
}

Result<> ForcedReader::read(pid_t pid, ProgramAddress address, std::span<std::byte> to) {
    if (pid != pid_ || !memory_) {
        memory_ = TRY(open_memory(pid, O_RDONLY));
        pid_ = pid;
    }
    const ssize_t got = ::pread(memory_.get(), to.data(), to.size(), static_cast<off_t>(address.value()));
    if (got < 0) return fail_errno("memory of {} at {:#x}", pid, address);
    if (static_cast<std::size_t>(got) != to.size())
        return fail("memory of {} at {:#x}: only {} of {} bytes can be read", pid, address, got, to.size());
    return {};
}

Result<> read_memory_forced(pid_t pid, ProgramAddress address, std::span<std::byte> to) {
    return ForcedReader().read(pid, address, to);
}

Result<> write_memory_forced(pid_t pid, ProgramAddress address, std::span<const std::byte> from) {
    auto memory = TRY(open_memory(pid, O_WRONLY));
    const ssize_t put = ::pwrite(memory.get(), from.data(), from.size(), static_cast<off_t>(address.value()));
    if (put < 0) return fail_errno("writing to memory of {} at {:#x}", pid, address);
    if (static_cast<std::size_t>(put) != from.size())
        return fail("memory of {} at {:#x}: only {} of {} bytes can be written", pid, address, put,
                    from.size());
    return {};
}

}  // namespace cairn::ptrace
