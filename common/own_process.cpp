#include "common/own_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "common/fd.h"
#include "common/region.h"
#include "common/sched_attributes.h"

extern char** environ;

namespace cairn {
namespace {

struct Limit {
    __rlimit_resource resource;
    rlim_t least;  // with a lower hard limit something may fail
    const char *before, *after;
};

constexpr rlim_t infinite = RLIM_INFINITY;
constexpr rlim_t gibibyte = rlim_t{1} << 30;

// Those whose soft limit alone matters have a least of 0.
constexpr std::array limits{
    Limit{RLIMIT_FSIZE, infinite, "files can't grow beyond ", " bytes (ulimit -H -f)"},
    Limit{RLIMIT_CPU, infinite, "the CPU time of a process ends at ", " s (ulimit -H -t)"},
    Limit{RLIMIT_AS, 2 * gibibyte, "the memory of a process ends at ", " bytes (ulimit -H -v)"},
    Limit{RLIMIT_DATA, 2 * gibibyte, "the data of a process end at ", " bytes (ulimit -H -d)"},
    Limit{RLIMIT_NOFILE, 1024, "a process can't open more than ", " files (ulimit -H -n)"},
    Limit{RLIMIT_STACK, 1 << 20, "the stack of a process ends at ", " bytes (ulimit -H -s)"},
    Limit{RLIMIT_NPROC, 0, "", ""},
    Limit{RLIMIT_RSS, 0, "", ""},
    Limit{RLIMIT_MEMLOCK, 0, "", ""},
    Limit{RLIMIT_LOCKS, 0, "", ""},
    Limit{RLIMIT_SIGPENDING, 0, "", ""},
    Limit{RLIMIT_MSGQUEUE, 0, "", ""},
    Limit{RLIMIT_NICE, 0, "", ""},
    Limit{RLIMIT_RTPRIO, 0, "", ""},
    Limit{RLIMIT_RTTIME, 0, "", ""},
};

constexpr rlim_t most_files = 1 << 20;   // fs.nr_open of a stock kernel
constexpr rlim_t usual_stack = 8 << 20;  // of a stock kernel; the default for threads too
// Who we are, where things are, and the time of day: the rest was meant for the program.
constexpr std::array<std::string_view, 8> kept_names{
    "HOME", "LOGNAME", "PATH", "TZ", "USER", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH", "SHELL"};

constexpr int ioprio_who_process = 1;  // linux/ioprio.h
constexpr int mpol_default = 0;        // linux/mempolicy.h
constexpr unsigned long usual_timer_slack_ns = 50'000;

void plain_signals() {
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; ++number) ::sigaction(number, &plain, nullptr);
    plain.sa_handler = SIG_IGN;
    ::sigaction(SIGXFSZ, &plain, nullptr);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// For how long the processor is ours at a time (Linux 6.12).
void plain_slice() {
    SchedAttributes attributes = {};
    if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
    attributes.runtime = 0;
    ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void plain_scheduling(std::vector<std::string>& kept) {
    const auto keep = [&kept](const std::string& what) {
        kept.push_back(what + ": " + std::strerror(errno));
    };
    sched_param none{};
    // With SCHED_RESET_ON_FORK set, a policy that is no real-time one may be taken by anybody.
    if (::sched_getscheduler(0) != SCHED_OTHER && ::sched_setscheduler(0, SCHED_OTHER, &none) != 0)
        keep("the scheduling policy can't be set to the usual one");
    errno = 0;
    if (const int nice = ::getpriority(PRIO_PROCESS, 0);
        nice != 0 && errno == 0 && ::setpriority(PRIO_PROCESS, 0, 0) != 0)
        keep("niceness " + std::to_string(nice) + " can't be set to 0");
    plain_slice();
    ::syscall(SYS_ioprio_set, ioprio_who_process, 0, 0);
    // All that there may be: the kernel takes those that our cpuset has.
    std::array<unsigned long, 1024> all{};
    all.fill(~0UL);
    if (::syscall(SYS_sched_setaffinity, 0, sizeof all, all.data()) != 0)
        keep("the affinity can't be set to all CPUs");
    ::syscall(SYS_set_mempolicy, mpol_default, nullptr, 0UL);
    ::prctl(PR_SET_TIMERSLACK, usual_timer_slack_ns, 0UL, 0UL, 0UL);
    ::prctl(PR_SET_THP_DISABLE, 0UL, 0UL, 0UL, 0UL);
}

void plain_oom_score(std::vector<std::string>& kept) {
    const Fd file(::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
    std::array<char, 16> text{};
    if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return;
    if (text[0] != '0' && ::pwrite(file.get(), "0", 1, 0) != 1)
        kept.push_back("oom_score_adj " + std::string(text.data(), std::strcspn(text.data(), "\n")) +
                       " can't be set to 0: " + std::strerror(errno));
}

const char* dying = "cairn";

void last_words(int signal) {
    // Only what a signal handler may do (signal-safety(7)).
    std::array<char, 200> text{};
    const char* abbreviation = ::sigabbrev_np(signal);
    char* end = ::stpncpy(text.data(), dying, 60);
    end = ::stpcpy(end, ": killed by SIG");
    end = ::stpncpy(end, abbreviation != nullptr ? abbreviation : "?", 20);
    *end++ = '\n';
    [[maybe_unused]] const ssize_t said =
        ::write(STDERR_FILENO, text.data(), static_cast<std::size_t>(end - text.data()));
    // SA_RESETHAND: it kills now.
    ::raise(signal);
}

}  // namespace

void raise_limits() {
    for (const Limit& limit : limits) {
        rlimit now{};
        if (::getrlimit(limit.resource, &now) != 0) continue;
        rlimit more{infinite, infinite};
        if (limit.resource == RLIMIT_NOFILE)
            more.rlim_cur = more.rlim_max = std::max(now.rlim_max, most_files);
        if (limit.resource == RLIMIT_STACK) more = {usual_stack, std::max(now.rlim_max, usual_stack)};
        if (::setrlimit(limit.resource, &more) == 0) continue;
        now.rlim_cur = std::min(now.rlim_max, more.rlim_cur);
        // One second before the kernel kills by SIGKILL it sends SIGXCPU, which can be told of.
        if (limit.resource == RLIMIT_CPU && now.rlim_max > 1) now.rlim_cur = now.rlim_max - 1;
        ::setrlimit(limit.resource, &now);
    }
}

std::vector<std::string> own_environment() {
    std::vector<std::string> kept;
    for (char* const* each = environ; each != nullptr && *each != nullptr; ++each) {
        const std::string_view whole = *each;
        const std::string_view name = whole.substr(0, whole.find('='));
        const bool ours =
            name.starts_with("CAIRN_") && name != env_region && name != env_library && name != env_gate;
        if (ours || name.ends_with("SAN_OPTIONS") ||
            std::find(kept_names.begin(), kept_names.end(), name) != kept_names.end())
            kept.emplace_back(whole);
    }
    return kept;
}

std::vector<std::string> low_limits() {
    std::vector<std::string> low;
    for (const Limit& limit : limits) {
        rlimit now{};
        if (limit.least == 0 || ::getrlimit(limit.resource, &now) != 0 || now.rlim_max >= limit.least)
            continue;
        low.push_back(limit.before + std::to_string(now.rlim_max) + limit.after);
    }
    return low;
}

std::vector<std::string> stand_alone() {
    std::vector<std::string> kept;
    plain_signals();
    raise_limits();
    ::umask(077);
    ::personality(PER_LINUX);
    plain_scheduling(kept);
    plain_oom_score(kept);
    return kept;
}

std::string name_of_signal(int signal) {
    const char* abbreviation = ::sigabbrev_np(signal);
    return abbreviation != nullptr ? std::string("SIG") + abbreviation : "signal " + std::to_string(signal);
}

std::string cause_of_death(int signal) {
    const auto limited = [](__rlimit_resource resource) {
        rlimit now{};
        return ::getrlimit(resource, &now) == 0 && now.rlim_cur != infinite;
    };
    if (signal == SIGXFSZ) return "the limit on the size of files, ulimit -f";
    if (signal == SIGXCPU) return "the limit on CPU time, ulimit -t";
    if (signal == SIGKILL) {
        std::string cause = "by somebody, or by the kernel that was out of memory (see dmesg)";
        if (limited(RLIMIT_CPU)) cause += ", or the limit on CPU time, ulimit -H -t";
        return cause;
    }
    if (signal == SIGABRT && (limited(RLIMIT_AS) || limited(RLIMIT_DATA)))
        return "the limit on memory, ulimit -H -v or -d?";
    if (signal == SIGBUS) return "a file system that is full?";
    if (signal == SIGSYS) return "a seccomp filter";
    return {};
}

void tell_own_death(const char* program) {
    dying = program;
    struct sigaction action {};
    action.sa_handler = last_words;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGXCPU, SIGQUIT, SIGUSR1,
                             SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF})
        ::sigaction(signal, &action, nullptr);
}

}  // namespace cairn
