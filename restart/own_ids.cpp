#include "restart/own_ids.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/choose_ids.h"
#include "common/client.h"
#include "common/fd.h"
#include "common/human.h"
#include "common/privileges.h"
#include "common/proc.h"
#include "common/session.h"
#include "restart/keep_capabilities.h"
#include "restart/launched.h"
#include "restart/old_ids.h"
#include "restart/tell.h"

namespace cairn::restart {
namespace {

Result<> write_text(const char* path, const std::string& text) {
    const Fd fd(::open(path, O_WRONLY | O_CLOEXEC));
    if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return fail_errno("{}", path);
    return {};
}

bool has_ids_here(const Options& options, const Computation& computation) {
    return options.ids != Ids::virtual_ids && ::geteuid() == 0 && can_choose_ids() &&
           old_ids_free(computation.processes, leaders_of(computation.processes), std::chrono::seconds(3));
}

// The session's coordinator lives outside, and would take nobody for a member whose ids mean nothing there.
// One that serves nobody makes room for another, which the restart starts inside.
Result<> end_idle_coordinator(const Options& options, const Computation& computation) {
    const auto session =
        make_session(options.session.empty() ? computation.manifest.session : options.session);
    if (!session) return fail_code(ExitCode::no_coordinator, "{}", session.error());
    auto client = CoordinatorClient::connect(*session);
    if (!client) return {};
    constexpr auto silence = std::chrono::seconds(10);
    const auto status = TRY(client->ask({{"verb", "status"}}, {}, silence));
    if (const auto there = status.value("processes", 0); there != 0)
        return fail_code(ExitCode::refused,
                         "session {} has {} already: programs that need a pid namespace of their own can't "
                         "join them; restart into another session (--session NAME)",
                         session->name,
                         human_count(static_cast<std::uint64_t>(there), "process", "processes"));
    CHECK_OK(error_of(client->ask({{"verb", "quit"}}, {}, silence)));
    for (int look = 0; look < 500 && CoordinatorClient::connect(*session); ++look) ::usleep(10'000);
    return {};
}

Result<> make_namespaces() {
    const auto uid = ::geteuid();
    const auto gid = ::getegid();
    const int user = uid == 0 ? 0 : CLONE_NEWUSER;
    if (::unshare(user | CLONE_NEWPID | CLONE_NEWNS) != 0) return fail_errno("unshare");
    if (user == 0) return {};
    CHECK_OK(write_text("/proc/self/setgroups", "deny"));
    CHECK_OK(write_text("/proc/self/uid_map", fmt::format("{} {} 1", uid, uid)));
    CHECK_OK(write_text("/proc/self/gid_map", fmt::format("{} {} 1", gid, gid)));
    return keep_capabilities();
}

// Those of the proc that is there: what programs have mounted of it in namespaces of their own is mounted of
// ours, and there a flag that ours had and theirs hadn't could not be taken away (locked mounts,
// mount_namespaces(7)).
unsigned long flags_of_proc() {
    constexpr unsigned long all = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    static_assert((ST_NOSUID | ST_NODEV | ST_NOEXEC) == static_cast<int>(all));  // of statvfs(3)
    struct statvfs there {};
    return ::statvfs("/proc", &there) == 0 ? there.f_flag & all : all;
}

// In the first process of the namespace. The next ids given out are above all that the programs have.
Result<> furnish(const Computation& computation) {
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return fail_errno("mount /");
    if (::mount("proc", "/proc", "proc", flags_of_proc(), nullptr) != 0) return fail_errno("mount /proc");
    const auto ids = ids_of(computation.processes, leaders_of(computation.processes));
    constexpr std::int32_t room = 1000;
    const auto highest = ids.empty() ? 0 : ids.rbegin()->number();
    const auto most = proc::read_file("/proc/sys/kernel/pid_max");
    if (most && highest + room < std::atoi(most->c_str()))
        CHECK_OK(write_text("/proc/sys/kernel/ns_last_pid", std::to_string(highest + room / 2)));
    return {};
}

// Reaps whoever has lost his parent, and hands on what is sent to the restart. Stays until nobody is left.
[[noreturn]] void be_first_process(pid_t tool, const sigset_t& all, int report) {
    for (bool alone = false; !alone;) {
        siginfo_t info{};
        const int signal = ::sigwaitinfo(&all, &info);
        if (signal > 0 && signal != SIGCHLD && tool > 0) (void)::kill(tool, signal);
        int status = 0;
        pid_t ended = 0;
        while ((ended = ::waitpid(-1, &status, WNOHANG)) > 0) {
            if (ended != tool) continue;
            tool = 0;
            ::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);  // daemons of the computation go on
            (void)!::write(report, &status, sizeof status);
            ::close(report);
        }
        alone = ended < 0 && errno == ECHILD;
    }
    ::_exit(0);
}

// Until the restart inside has ended: what is sent to us is meant for it.
int stay_outside(pid_t first, int report, const sigset_t& all) {
    int status = 0;
    for (;;) {
        const timespec moment = {0, 100'000'000};
        siginfo_t info{};
        const int signal = ::sigtimedwait(&all, &info, &moment);
        // What the terminal sends has reached the restart, which is in our process group.
        if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) (void)::kill(first, signal);
        pollfd told{report, POLLIN, 0};
        if (::poll(&told, 1, 0) <= 0) continue;
        if (::read(report, &status, sizeof status) == sizeof status) return end_as(status);
        (void)::waitpid(first, &status, 0);
        return end_as(status);
    }
}

Result<std::optional<int>> split(Options& options, const Computation& computation) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
    Fd reading(ends[0]), writing(ends[1]);
    sigset_t all, before;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before);
    const pid_t first = ::fork();
    if (first < 0) return fail_errno("fork");
    if (first > 0) {
        writing.reset();
        return stay_outside(first, reading.get(), all);
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    reading.reset();
    CHECK_OK(furnish(computation));
    const pid_t tool = ::fork();
    if (tool < 0) return fail_errno("fork");
    if (tool > 0) be_first_process(tool, all, writing.release());
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    writing.reset();
    options.ids = Ids::exact;
    return std::nullopt;
}

}  // namespace

Result<std::optional<int>> enter_own_ids(Options& options, const Computation& computation) {
    const auto& who = computation.manifest.raw_ids;
    if (who.empty() || options.check_only || options.ids == Ids::exact || has_ids_here(options, computation))
        return std::nullopt;
    const auto refuse = [&](std::string why) {
        return fail_code(
            ExitCode::refused,
            "{} makes system calls past libcairn.so (a static program, Go, another libc) and needs "
            "the ids that it had: {}",
            who, why);
    };
    if (!computation.manifest.hosts.empty() || !options.parts.empty())
        return refuse("of a computation of several hosts or parts only root can restore these (--ids exact)");
    CHECK_OK(end_idle_coordinator(options, computation));
    (void)own_privileges();  // a user namespace would change what we see of ourselves
    if (auto made = make_namespaces(); !made)
        return refuse(
            fmt::format("a pid namespace of its own can't be made here ({}); allow user namespaces "
                        "(sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces), or restart "
                        "as root",
                        made.error().what));
    return split(options, computation);
}

}  // namespace cairn::restart
