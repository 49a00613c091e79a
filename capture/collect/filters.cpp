#include "capture/collect/filters.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "capture/seize.h"
#include "common/agent.h"
#include "common/io_uring_filter.h"
#include "common/landlock_room.h"
#include "common/ptrace/restart_code.h"
#include "common/seccomp.h"

namespace cairn::capture {
namespace {

using seccomp::Call;
using seccomp::Code;

constexpr Call end_of_thread = {
    "exit", SYS_exit, {0, seccomp::any, seccomp::any, seccomp::any, seccomp::any, seccomp::any}};

// What the agent calls (hijack/agent/agent.cpp), its copy-on-write child, and a restart once the filters are
// there again (set_other_threads() in restart/rebuild/leave.h).
std::vector<Call> calls_of_ours() {
    using seccomp::any;
    constexpr std::uint64_t set = 2, size = 8, page = 4096, wake = 1, nobody = ~std::uint64_t{0},
                            all_descriptors = static_cast<std::uint32_t>(-1),
                            wall = static_cast<std::uint32_t>(__WALL);
    constexpr long futex_waitv = 449;
    std::vector<Call> calls = {
        {"rt_sigprocmask", SYS_rt_sigprocmask, {set, any, 0, size, any, any}},
        {"rt_sigtimedwait", SYS_rt_sigtimedwait, {any, 0, any, size}},
        {"kill (of nobody)", SYS_kill, {static_cast<std::uint64_t>(::getpid()), 0}},
        {"sigaltstack", SYS_sigaltstack, {0, any}},
        {"get_mempolicy", SYS_get_mempolicy, {any, any, max_memory_nodes}},
        {"rt_sigaction", SYS_rt_sigaction, {any, 0, any, size}},
        {"getitimer", SYS_getitimer, {any, any}},
        {"timer_gettime", SYS_timer_gettime, {any, any}},
        {"timer_getoverrun", SYS_timer_getoverrun, {any}},
        {"brk", SYS_brk, {0}},
        {"mmap", SYS_mmap, {0, any, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, nobody, 0}},
        {"mincore", SYS_mincore, {any, any, any}},
        {"madvise", SYS_madvise, {any, page, MADV_DONTNEED}},
        {"munmap", SYS_munmap, {any, any}},
        {"getrusage", SYS_getrusage, {nobody, any}},
        {"futex_waitv", futex_waitv, {any, any, 0, any, CLOCK_MONOTONIC}},
        {"futex", SYS_futex, {any, wake, 1}},
        {"clone", SYS_clone, {CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS, any, 0, 0, 0, any}},
        {"clone", SYS_clone, {CLONE_FILES}},
        {"wait4", SYS_wait4, {any, 0, wall, 0}},
        {"waitid", SYS_waitid, {P_PID, any, any, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | wall, 0}},
        {"close_range", SYS_close_range, {0, all_descriptors, CLOSE_RANGE_UNSHARE}},
        {"setsid", SYS_setsid},
        {"getpid", SYS_getpid},
        end_of_thread,
        {"exit_group", SYS_exit_group, {0}},
        {"restart_syscall", SYS_restart_syscall, {any, any, any, any, any, any}},
    };
    for (const auto clock : {CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID})
        calls.push_back({"clock_gettime", SYS_clock_gettime, {static_cast<std::uint64_t>(clock), any}});
    for (const int what : {PR_GET_PDEATHSIG, PR_GET_TID_ADDRESS, PR_GET_CHILD_SUBREAPER, PR_GET_TSC,
                           PR_SET_NAME, PR_SET_PTRACER})
        calls.push_back({"prctl", SYS_prctl, {static_cast<std::uint64_t>(what), any}});
    for (const int what :
         {PR_GET_TIMERSLACK, PR_GET_DUMPABLE, PR_GET_KEEPCAPS, PR_GET_SECUREBITS, PR_GET_THP_DISABLE})
        calls.push_back({"prctl", SYS_prctl, {static_cast<std::uint64_t>(what)}});
    for (const std::uint64_t on : {0U, 1U})
        calls.push_back({"prctl", SYS_prctl, {PR_SET_CHILD_SUBREAPER, on}});
    // the first of these since Linux 6.3, the others before
    for (const auto command : {1 << 9, static_cast<int>(MEMBARRIER_CMD_PRIVATE_EXPEDITED),
                               static_cast<int>(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE),
                               static_cast<int>(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)})
        calls.push_back({"membarrier", SYS_membarrier, {static_cast<std::uint64_t>(command), 0}});
    return calls;
}

// Filters are only ever added, and inherited: the first ones of who has as many as the coordinator are the
// coordinator's.
int own_count() {
    static const int count = [] {
        auto status = proc::status(::getpid(), ::getpid());
        return status ? std::atoi((*status)["Seccomp_filters"].c_str()) : 0;
    }();
    return count;
}

struct Filter {
    Code code;
    bool log = false;
};

// Number `index` of a thread, the oldest is 0 (seccomp_get_filter, kernel/seccomp.c). Nothing: who asks has
// no CAP_SYS_ADMIN, or a filter itself, or the kernel no CONFIG_CHECKPOINT_RESTORE.
std::optional<Filter> filter_of(pid_t tid, int index) {
    Filter filter;
    filter.code.resize(BPF_MAXINSNS);
    const long length = ::ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, filter.code.data());
    if (length <= 0) return {};
    filter.code.resize(static_cast<std::size_t>(length));
    struct {
        std::uint64_t filter_off, flags;
    } about = {static_cast<std::uint64_t>(index), 0};  // struct seccomp_metadata, linux/ptrace.h
    if (::ptrace(static_cast<__ptrace_request>(PTRACE_SECCOMP_GET_METADATA), tid, sizeof about, &about) > 0)
        filter.log = (about.flags & SECCOMP_FILTER_FLAG_LOG) != 0;
    return filter;
}

// The filter of `cairn launch --io-uring=enosys`, which the agent's calls pass.
bool is_io_uring_filter(const Code& code) {
    return code.size() == io_uring_filter.size() &&
           std::memcmp(code.data(), io_uring_filter.data(), sizeof io_uring_filter) == 0;
}

// The same where it can't be read: the environment has to tell.
bool has_io_uring_filter(pid_t living) {
    auto environment = proc::read_file(fmt::format("/proc/{}/environ", living));
    const auto wanted = fmt::format("{}={}", env_io_uring, io_uring_enosys) + '\0';
    return environment &&
           (environment->starts_with(wanted) || environment->find('\0' + wanted) != std::string::npos);
}

constexpr const char* strict_words =
    "is in seccomp's strict mode, which only root can suspend for what a checkpoint calls in it "
    "(PTRACE_O_SUSPEND_SECCOMP); start the session as root";

// The first of the calls that the filter doesn't plainly allow.
std::optional<Call> forbidden_by(const Code& code, std::span<const Call> calls) {
    const auto found =
        std::ranges::find_if(calls, [&](const Call& call) { return !seccomp::allows(code, call); });
    return found == calls.end() ? std::nullopt : std::optional(*found);
}

// Of asking whether Landlock restricts a thread (common/landlock_room.h).
bool forbids_landlock(const Code& code) {
    using seccomp::any;
    constexpr std::uint64_t wall = static_cast<std::uint32_t>(__WALL);
    static const std::vector<Call> calls = {
        {"clone", SYS_clone, {CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS, 0, 0, 0, 0, any}},
        {"close_range", SYS_close_range, {0, static_cast<std::uint32_t>(-1), CLOSE_RANGE_UNSHARE}},
        {"prctl", SYS_prctl, {PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0}},
        {"landlock_create_ruleset", landlock_create_ruleset_call, {any, 8, 0}},
        {"landlock_restrict_self", landlock_restrict_self_call, {any, 0}},
        {"wait4", SYS_wait4, {any, any, wall, 0}},
        end_of_thread};
    return forbidden_by(code, calls).has_value();
}

// What a filter means for us.
struct Judged {
    std::optional<Call> forbidden;  // the first of all that we call
    bool landlock_forbidden = false;
};

// Threads of sandboxed programs have the same filters by the dozen, and everybody stands still while they are
// judged.
const Judged& judge(const Code& code) {
    static std::map<std::string, Judged, std::less<>> known;
    const auto bytes = std::as_bytes(std::span(code));
    const std::string_view key(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    return known.emplace(key, Judged{forbidden_by(code, calls_of_ours()), forbids_landlock(code)})
        .first->second;
}

std::int32_t number_of(schema::Process& image, const Filter& filter) {
    schema::SeccompFilter saved;
    const auto bytes = std::as_bytes(std::span(filter.code));
    saved.code.resize(bytes.size());
    std::memcpy(saved.code.data(), bytes.data(), bytes.size());
    saved.log = filter.log;
    const auto known = std::ranges::find_if(
        image.filters, [&](const auto& other) { return other.code == saved.code && other.log == saved.log; });
    const auto number = static_cast<std::int32_t>(known - image.filters.begin());
    if (known == image.filters.end()) image.filters.push_back(std::move(saved));
    return number;
}

// Of a thread that nothing may be called in: neither would the kernel's own restart_syscall(2) be forgiven
// when we have gone. The call is made anew, as spare_restart() has it.
void spare_restart_of(StoppedThread& thread) {
    auto& registers = thread.registers;
    if (static_cast<std::int64_t>(registers.orig_rax) < 0) return;
    if (says(registers, RestartCode::by_block)) {
        if (!may_not_restart(thread.tid)) return;
        say(registers, RestartCode::unless_any_handler);
    }
    // hide_stop() may have said so too, and have left it to the agent, which mustn't be too late here.
    if (!thread.parked) (void)ptrace::set_registers(thread.tid, registers);
}

Result<> suspend(StoppedThread& thread) {
    if (thread.filters_suspended) return {};
    CHECK_OK(ptrace::suspend_filters(thread.tid, seize_options));
    thread.filters_suspended = true;
    spare_restart_of(thread);
    return {};
}

}  // namespace

Result<> collect_filters(const StoppedProcess& process, StoppedThread& stopped, const proc::Status& status,
                         schema::Process& image, schema::Thread& thread) {
    if (status["Seccomp"] == "0") return {};
    const pid_t tid = thread.kernel_tid.number();
    const auto refuse = [&](const std::string& what) {
        return fail_code(ExitCode::refused, "thread {} {}", tid, what);
    };
    if (status["Seccomp"] != "2") {
        if (!suspend(stopped)) return refuse(strict_words);
        thread.seccomp_strict = true;
        stopped.landlock_forbidden = true;
        return {};
    }
    const int all = std::atoi(status["Seccomp_filters"].c_str());
    if (all == own_count()) return {};
    std::vector<Code> chain;
    for (int index = own_count(); index < all; ++index) {
        const auto filter = filter_of(tid, index);
        if (!filter && all - own_count() == 1 && has_io_uring_filter(process.living)) {
            image.io_uring_off = true;
            return {};
        }
        if (!filter)
            return refuse(
                "has a seccomp filter of its own, which only root can read, by a coordinator that has none "
                "itself; start the session as root, or the program without its sandbox");
        if (chain.empty() && index == own_count() && is_io_uring_filter(filter->code)) {
            image.io_uring_off = true;
            continue;
        }
        if (seccomp::may_notify(filter->code))
            return refuse(
                "has a seccomp filter that asks a listener (SECCOMP_RET_USER_NOTIF), which can't be "
                "connected to it again");
        // A main thread that had ended has to end again, and may have got the filter of its siblings by then.
        if (process.threads.front().leader_dead && forbidden_by(filter->code, std::array{end_of_thread}))
            return refuse(
                "has a seccomp filter that forbids exit (system call 60), by which a restart ends the main "
                "thread once more, which has ended: can't be saved");
        const auto& judged = judge(filter->code);
        stopped.landlock_forbidden |= judged.landlock_forbidden;
        if (const auto& forbidden = judged.forbidden; forbidden && !suspend(stopped))
            return refuse(
                fmt::format("has a seccomp filter that forbids {} (system call {}), which a checkpoint "
                            "makes in it, and can't be suspended for that (PTRACE_O_SUSPEND_SECCOMP); allow "
                            "it, or start the program without its sandbox",
                            forbidden->name, forbidden->number));
        if (seccomp::next_step(chain, filter->log, false).way == seccomp::Way::none)
            return refuse(
                "has a seccomp filter that couldn't be installed again: the one before it forbids "
                "seccomp(2) and prctl(2) now");
        chain.push_back(filter->code);
        thread.filters.push_back(number_of(image, *filter));
    }
    return {};
}

Result<> let_filters_place(pid_t tid) {
    auto status = proc::status(tid, tid);
    if (!status || (*status)["Seccomp"] == "0") return {};
    if ((*status)["Seccomp"] != "2") {
        if (ptrace::suspend_filters(tid, seize_options)) return {};
        return fail_code(ExitCode::refused, "{}", strict_words);
    }
    using seccomp::any;
    constexpr std::uint64_t here = static_cast<std::uint64_t>(std::int64_t{AT_FDCWD});
    const std::array<Call, 4> calls = {Call{"openat", SYS_openat, {here, any, any, 0}},
                                       Call{"mmap", SYS_mmap, {any, any, any, any, any, any}},
                                       Call{"close", SYS_close, {any}},
                                       Call{"munmap", SYS_munmap, {any, any}}};
    const int all = std::atoi((*status)["Seccomp_filters"].c_str());
    for (int index = own_count(); index < all; ++index) {
        const auto filter = filter_of(tid, index);
        if (!filter && all - own_count() == 1 && has_io_uring_filter(tid)) return {};
        const auto forbidden = filter ? forbidden_by(filter->code, calls) : std::nullopt;
        if (filter && (!forbidden || ptrace::suspend_filters(tid, seize_options))) continue;
        return fail_code(ExitCode::refused,
                         "has no libcairn.so in it (a static program, or one of another libc), and a "
                         "seccomp filter that {}, by which a checkpoint places it; start the program "
                         "without its sandbox",
                         filter ? fmt::format("forbids {}", forbidden->name) : "only root can read");
    }
    return {};
}

bool filters_let_hand_in(pid_t tid) {
    auto status = proc::status(tid, tid);
    if (!status) return false;
    using seccomp::any;
    const std::array<Call, 2> calls = {
        Call{"socketpair", SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, any}},
        Call{"recvmsg", SYS_recvmsg, {any, any, MSG_DONTWAIT | MSG_CMSG_CLOEXEC}}};
    const int all = std::atoi((*status)["Seccomp_filters"].c_str());
    if (all - own_count() == 1 && has_io_uring_filter(tid)) return true;
    for (int index = own_count(); index < all; ++index) {
        const auto filter = filter_of(tid, index);
        if (!filter || forbidden_by(filter->code, calls)) return false;
    }
    return (*status)["Seccomp"] != "1";
}

bool may_not_restart(pid_t tid) {
    auto status = proc::status(tid, tid);
    if (!status || (*status)["Seccomp"] == "0") return false;
    const int all = std::atoi((*status)["Seccomp_filters"].c_str());
    using seccomp::any;
    const Call restart = {"restart_syscall", SYS_restart_syscall, {any, any, any, any, any, any}};
    for (int index = own_count(); index < all; ++index) {
        const auto filter = filter_of(tid, index);
        if (!filter || !seccomp::allows(filter->code, restart)) return true;
    }
    return (*status)["Seccomp"] == "1";
}

std::optional<long> number_for_none(pid_t tid) {
    auto status = proc::status(tid, tid);
    if (!status) return std::nullopt;
    if ((*status)["Seccomp"] == "0") return -1;
    // Those that it has in common with us let us ask for our pid.
    const int all = std::atoi((*status)["Seccomp_filters"].c_str());
    for (int index = own_count(); index < all; ++index) {
        const auto filter = filter_of(tid, index);
        if (!filter || !seccomp::allows(filter->code, {"getpid", SYS_getpid})) return std::nullopt;
    }
    if ((*status)["Seccomp"] == "1") return std::nullopt;
    return SYS_getpid;
}

}  // namespace cairn::capture
