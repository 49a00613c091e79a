#include "capture/hide_stop.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <sstream>
#include <vector>

#include "capture/agent_frame.h"
#include "capture/go_program.h"
#include "capture/rseq.h"
#include "common/agent.h"
#include "common/fd.h"
#include "common/program_fd_text.h"
#include "common/ptrace/restart_code.h"
#include "common/timeout.h"
#include "resources/tcp/capture_queue.h"

namespace cairn::capture {
namespace {

// Calls that answer any wake-up with EINTR instead of a restart code (signal(7)). With the code that means
// "restart unless a handler runs", the kernel itself decides, in one step with the delivery of signals.
constexpr std::array eintr_calls = {
    SYS_epoll_wait,      SYS_epoll_pwait,  SYS_epoll_pwait2, SYS_semop,           SYS_semtimedop,
    SYS_rt_sigtimedwait, SYS_io_getevents, SYS_msgrcv,       SYS_msgsnd,          SYS_accept,
    SYS_accept4,         SYS_connect,      SYS_recvfrom,     SYS_recvmsg,         SYS_recvmmsg,
    SYS_sendto,          SYS_sendmsg,      SYS_sendmmsg,     SYS_io_uring_enter,  SYS_read,
    SYS_readv,           SYS_write,        SYS_writev,       SYS_mq_timedreceive, SYS_mq_timedsend};

// Calls with a restart block whose timeout, if any, is a point in time: made anew they do what the block
// would.
bool has_no_length(const ptrace::Registers& registers) {
    switch (registers.orig_rax) {
        case SYS_poll:
            return static_cast<std::int32_t>(registers.rdx) < 0;
        case SYS_futex:
            return (static_cast<int>(registers.rsi) & FUTEX_CMD_MASK) != FUTEX_WAIT;
        default:
            return false;
    }
}

// A call that only said EINTR because of the stop is restarted by the kernel, with what is left of its
// timeout. So is one with a restart block: the kernel would go on with restart_syscall(2), and at the next
// stop nobody could tell what it was, and a restored process has no block. (One whose length isn't known
// keeps it.)
void restart_call(pid_t pid, StoppedThread& thread) {
    auto& registers = thread.registers;
    if (static_cast<std::int64_t>(registers.orig_rax) < 0) return;
    if (static_cast<std::int64_t>(registers.rax) == -EINTR &&
        std::ranges::find(eintr_calls, static_cast<long>(registers.orig_rax)) != eintr_calls.end())
        say(registers, RestartCode::unless_any_handler);
    if (says(registers, RestartCode::by_block) && (thread.timeout_left >= 0 || has_no_length(registers)))
        say(registers, RestartCode::unless_any_handler);
    if (thread.timeout_left < 0 || !says(registers, RestartCode::unless_any_handler)) return;
    if (const auto left = shorten_timeout(registers, thread.timeout_left)) {
        const std::array<std::int64_t, 2> value = {left->seconds, left->nanoseconds};
        (void)ptrace::write_object(pid, left->address, value);
    }
}

// The first argument of a call: the kernel looks at its lower half only, and the upper one may be anything.
ProgramFd descriptor_in(const ptrace::Registers& registers) {
    return ProgramFd(static_cast<std::int32_t>(registers.rdi));
}

// As /proc/PID/net/tcp shows it: where the descriptor can't be had, because pidfd_getfd is forbidden.
int listed_state(const StoppedProcess& process, ProgramFd fd) {
    const auto link = proc::read_link(fmt::format("/proc/{}/fd/{}", process.living, fd));
    unsigned long inode = 0;
    if (!link || std::sscanf(link->c_str(), "socket:[%lu]", &inode) != 1) return 0;
    for (const char* table : {"tcp", "tcp6"}) {
        std::istringstream lines(
            proc::read_file(fmt::format("/proc/{}/net/{}", process.living, table)).value_or(""));
        for (std::string line; std::getline(lines, line);) {
            unsigned state = 0;
            unsigned long owner = 0;
            if (std::sscanf(line.c_str(), "%*s %*s %*s %x %*s %*s %*s %*s %*s %lu", &state, &owner) == 2 &&
                owner == inode)
                return static_cast<int>(state);
        }
    }
    return 0;
}

int state_of_tcp(const StoppedProcess& process, ProgramFd number) {
    const Fd pidfd = process.open_pidfd();
    const Fd fd(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), number.number(), 0U)));
    return fd ? tcp_state(fd.get()).state : errno == EBADF ? 0 : listed_state(process, number);
}

// connect(2) that was stopped when its connection was there already, and not told of it: made again it would
// return 0, but on a restored socket EISCONN, if that is the end which was called this time.
void finish_connect(const StoppedProcess& process, StoppedThread& thread) {
    auto& registers = thread.registers;
    if (registers.orig_rax != SYS_connect ||
        (!says(registers, RestartCode::unless_any_handler) && !says(registers, RestartCode::unless_handler)))
        return;
    const auto state = state_of_tcp(process, descriptor_in(registers));
    if (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT) registers.rax = 0;
}

void leave_rseq_section(const StoppedProcess& process, StoppedThread& thread) {
    const pid_t pid = process.living;
    if (static_cast<std::int64_t>(thread.registers.orig_rax) >= 0) return;
    const auto sequence = rseq_of(process, thread);
    if (!sequence || !sequence->address.known()) return;
    const auto section =
        ptrace::read_object<std::uint64_t>(pid, sequence->address + offsetof(struct rseq, rseq_cs));
    if (!section || *section == 0) return;
    const auto description = ptrace::read_object<struct rseq_cs>(pid, ProgramAddress(*section));
    auto& registers = thread.registers;
    if (!description || registers.rip - description->start_ip >= description->post_commit_offset) return;
    registers.rip = description->abort_ip;
}

// A sleep that was given a place for it has been told there what was left when the stop interrupted it
// (nanosleep_copyout(), kernel/time/hrtimer.c).
std::int64_t told_to_sleeper(pid_t pid, const ptrace::Registers& registers) {
    const auto call = registers.orig_rax;
    if (!says(registers, RestartCode::by_block) || (call != SYS_nanosleep && call != SYS_clock_nanosleep))
        return -1;
    const ProgramAddress at(call == SYS_nanosleep ? registers.rsi : registers.r10);
    const auto left = at.known() ? ptrace::read_object<timespec>(pid, at) : Result<timespec>(timespec{-1, 0});
    return left && left->tv_sec >= 0 ? left->tv_sec * 1'000'000'000 + left->tv_nsec : -1;
}

ProgramAddress note_of(const StoppedProcess& process, const StoppedThread& thread) {
    return ProgramAddress(thread.registers.fs_base) + static_cast<std::uint64_t>(process.timing_tls);
}

bool may_have_note(const StoppedProcess& process, const StoppedThread& thread) {
    return !thread.leader_dead && process.timing_tls != 0 &&
           static_cast<std::int64_t>(thread.registers.orig_rax) >= 0 && may_time_out(thread.registers);
}

// What the library has noted of the calls that the threads are in; nothing of who is in none. Of all threads
// at once; one by one where there is one whose note can't be read.
std::vector<TimingNote> timing_notes(const StoppedProcess& process) {
    std::vector<TimingNote> notes(process.threads.size());
    ptrace::MemoryPieces all{.at = {}, .ours = {}, .size = sizeof notes[0]};
    for (std::size_t i = 0; i < notes.size(); ++i) {
        if (!may_have_note(process, process.threads[i])) continue;
        all.at.push_back(note_of(process, process.threads[i]));
        all.ours.push_back(&notes[i]);
    }
    if (ptrace::read_memory(process.living, all)) return notes;
    for (std::size_t i = 0; i < notes.size(); ++i) {
        if (!may_have_note(process, process.threads[i])) continue;
        const auto note =
            ptrace::read_object<TimingNote>(process.living, note_of(process, process.threads[i]));
        notes[i] = note.value_or(TimingNote{});
    }
    return notes;
}

std::int64_t timeout_left(const StoppedProcess& process, const ptrace::Registers& registers,
                          const TimingNote& note) {
    if (static_cast<std::int64_t>(registers.orig_rax) < 0) return -1;
    if (process.timing_tls == 0) return told_to_sleeper(process.living, registers);
    if (note.began_ns == 0 || note.length_ns < 0) return -1;
    if (note.call != static_cast<std::int32_t>(registers.orig_rax)) return -1;
    timespec now = {};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t elapsed =
        now.tv_sec * 1'000'000'000 + now.tv_nsec + process.clock_shift - note.began_ns;
    return std::max<std::int64_t>(0, note.length_ns - elapsed);
}

// Would this descriptor's transfers wait? Regular files are never cut short by a signal.
bool blocks(pid_t pid, ProgramFd fd) {
    struct stat status = {};
    if (::stat(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), &status) != 0) return false;
    if (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode) && !S_ISCHR(status.st_mode)) return false;
    auto info = proc::read_file(fmt::format("/proc/{}/fdinfo/{}", pid, fd));
    if (!info) return false;
    const auto at = info->find("flags:");
    return at != std::string::npos && (std::strtoul(info->c_str() + at + 6, nullptr, 8) & O_NONBLOCK) == 0;
}

// With a signal of the program's own at the door the call would have been cut short anyway.
bool signal_waits(const StoppedThread& thread) {
    for (const bool of_process : {false, true}) {
        const auto pending = ptrace::pending(thread.tid, of_process);
        if (!pending) return true;
        for (const auto& info : *pending)
            if ((thread.mask >> (info.si_signo - 1) & 1) == 0) return true;
    }
    return false;
}

class Transfer {
  public:
    Transfer(pid_t pid, const ptrace::Registers& registers) : pid_(pid), registers_(registers) {
        frame_.call = registers.orig_rax;
        frame_.done = registers.rax;
        const std::array<std::uint64_t, 6> arguments = {registers.rdi, registers.rsi, registers.rdx,
                                                        registers.r10, registers.r8,  registers.r9};
        std::ranges::copy(arguments, frame_.arguments);
        address_ = ProgramAddress((registers.rsp - 128 - sizeof(FinishFrame)) & ~std::uint64_t{63});
    }

    // The call for what is left; nothing if there is nothing left or the call isn't one of these.
    bool advance() {
        auto* arguments = frame_.arguments;
        switch (frame_.call) {
            case SYS_write:
                return skip(arguments[1], arguments[2]);
            case SYS_sendto:
                return (arguments[3] & MSG_DONTWAIT) == 0 && skip(arguments[1], arguments[2]);
            case SYS_recvfrom:
                return waits_for_all(arguments[3]) && skip(arguments[1], arguments[2]);
            case SYS_sendfile:  // the kernel has moved the offset on
                if (frame_.done >= arguments[3]) return false;
                arguments[3] -= frame_.done;
                return true;
            case SYS_writev:
                return skip_vectors(arguments[1], arguments[2]);
            case SYS_sendmsg:
                return (arguments[2] & MSG_DONTWAIT) == 0 && skip_message();
            case SYS_recvmsg:
                return waits_for_all(arguments[2]) && skip_message();
            default:
                return false;
        }
    }

    // The call that was cut short was one for a rest already. Its frame is used again: a transfer that is
    // stopped again and again, by looks at its stack, needs no more of the stack than one that is stopped
    // once.
    Result<> go_on_from(ProgramAddress frame) {
        const auto before = TRY(ptrace::read_object<FinishFrame>(pid_, frame));
        address_ = frame;
        program_ = before.frame;
        done_before_ = before.done;
        return {};
    }

    Result<ptrace::Registers> install(std::uint64_t finish) {
        frame_.frame = program_;
        frame_.done += done_before_;
        CHECK_OK(ptrace::write_object(pid_, address_, frame_));
        auto registers = registers_;
        registers.rip = finish;
        registers.rdi = address_.value();
        registers.rsp = (address_ - below_finish_frame).value();
        registers.orig_rax = static_cast<std::uint64_t>(-1);
        return registers;
    }

  private:
    static bool waits_for_all(std::uint64_t flags) {
        return (flags & MSG_WAITALL) != 0 && (flags & (MSG_DONTWAIT | MSG_PEEK)) == 0;
    }
    bool skip(std::uint64_t& buffer, std::uint64_t& length) const {
        if (frame_.done >= length) return false;
        buffer += frame_.done;
        length -= frame_.done;
        return true;
    }
    // A copy of the vectors without what has been moved; longer lists than ours go on with what fits.
    bool skip_vectors(std::uint64_t& vectors, std::uint64_t& count) {
        std::uint64_t done = frame_.done, used = 0;
        constexpr std::uint64_t most = std::size(FinishFrame{}.vectors) / 2;
        for (std::uint64_t i = 0; i < count && used < most; ++i) {
            auto vector =
                ptrace::read_object<std::array<std::uint64_t, 2>>(pid_, ProgramAddress(vectors) + i * 16);
            if (!vector) return false;
            const auto skipped = std::min(done, (*vector)[1]);
            done -= skipped;
            if ((*vector)[1] == skipped) continue;
            frame_.vectors[2 * used] = (*vector)[0] + skipped;
            frame_.vectors[2 * used + 1] = (*vector)[1] - skipped;
            ++used;
        }
        vectors = (address_ + offsetof(FinishFrame, vectors)).value();
        count = used;
        return used > 0;
    }
    bool skip_message() {
        auto message =
            ptrace::read_object<std::array<std::uint64_t, 7>>(pid_, ProgramAddress(frame_.arguments[1]));
        if (!message) return false;
        std::ranges::copy(*message, frame_.message);
        // struct msghdr: name, namelen, iov, iovlen, control, controllen, flags. Control data has gone with
        // the first part.
        frame_.message[4] = frame_.message[5] = 0;
        frame_.arguments[1] = (address_ + offsetof(FinishFrame, message)).value();
        return skip_vectors(frame_.message[2], frame_.message[3]);
    }

    pid_t pid_;
    ptrace::Registers registers_;
    AgentFrame program_ = agent_frame(registers_, 0);
    FinishFrame frame_ = {};
    std::uint64_t done_before_ = 0;
    ProgramAddress address_;
};

// Not on the stack of a goroutine, which may end right below what it uses: Go's library goes on with the rest
// by itself.
void finish_transfer(const StoppedProcess& process, StoppedThread& thread) {
    const auto& registers = thread.registers;
    if (static_cast<std::int64_t>(registers.orig_rax) < 0 || static_cast<std::int64_t>(registers.rax) <= 0)
        return;
    const auto finish =
        ptrace::read_object<std::uint64_t>(process.living, process.door + offsetof(Door, finish));
    if (!finish || *finish == 0) return;
    Transfer transfer(process.living, registers);
    if (const auto frame = finish_frame_of(registers, *finish); frame.known() && !transfer.go_on_from(frame))
        return;
    if (!transfer.advance() || !blocks(process.living, descriptor_in(registers)) || signal_waits(thread) ||
        is_go_program(process.living))
        return;
    if (auto changed = transfer.install(*finish)) thread.registers = *changed;
}

}  // namespace

void hide_stop(StoppedProcess& process, AgentFollows agent) {
    process.stop_hidden = true;
    const auto notes = timing_notes(process);
    for (auto note = notes.begin(); auto& thread : process.threads) {
        const auto& its = *note++;
        if (thread.leader_dead) continue;
        thread.timeout_left = timeout_left(process, thread.registers, its);
        // A tracer sees it in this stop, with these registers. A restart block doesn't outlive the thread.
        if (thread.stopped_by_it) {
            if (says(thread.registers, RestartCode::by_block)) restart_call(process.living, thread);
            continue;
        }
        leave_rseq_section(process, thread);
        const auto before = thread.registers;
        restart_call(process.living, thread);
        finish_connect(process, thread);
        if (thread.parked) continue;
        finish_transfer(process, thread);
        // At once: should we die, the kernel lets the thread go on with what it has now.
        const bool changed = std::memcmp(&before, &thread.registers, sizeof before) != 0;
        if (changed && !(agent == AgentFollows::yes && says(before, RestartCode::by_block)))
            (void)ptrace::set_registers(thread.tid, thread.registers);
    }
}

}  // namespace cairn::capture
