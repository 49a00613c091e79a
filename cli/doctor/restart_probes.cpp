// What a restart does to bring programs back: the old ids, clocks that go on, executables by descriptor.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <vector>

#include "cli/doctor/container.h"
#include "cli/doctor/look.h"
#include "cli/doctor/probe.h"
#include "common/choose_ids.h"
#include "common/fd.h"

namespace cairn::doctor {
namespace {

Observation exact_ids(const Setting&) {
    if (const auto chosen = can_choose_ids(); !chosen) {
        auto seen = failed("", chosen.error().number);
        seen.said = chosen.error().what;
        return seen;
    }
    return worked("processes get their old ids from the kernel");
}

void refine_ids(Line& line, const Observation& seen, const Setting& setting) {
    if (line.state == State::ok && !setting.root) {
        line.state = State::note;
        line.found = "could be chosen, but --ids=auto does so for root only";
    }
    if (seen.worked()) return;
    line.meaning = "processes get other ids in the kernel, and the same ones for programs (virtual ids)";
    if (setting.root)
        line.remedy =
            seen.error == ENOSYS
                ? "a kernel from 5.5 on; in a container: " + add_capabilities(runtime_here(), "SYS_ADMIN")
                : add_capabilities(runtime_here(), "CHECKPOINT_RESTORE") + " (or SYS_ADMIN)";
}

bool write_text(const char* path, const std::string& text) {
    const Fd file(::open(path, O_WRONLY | O_CLOEXEC));
    return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

Observation enter_user_namespace(int besides) {
    const auto user = ::geteuid();
    const auto group = ::getegid();
    if (::unshare(CLONE_NEWUSER | besides) != 0) return failed("unshare (CLONE_NEWUSER)");
    if (!write_text("/proc/self/setgroups", "deny")) return failed("/proc/self/setgroups");
    if (!write_text("/proc/self/uid_map", fmt::format("{} {} 1", user, user)))
        return failed("/proc/self/uid_map");
    if (!write_text("/proc/self/gid_map", fmt::format("{} {} 1", group, group)))
        return failed("/proc/self/gid_map");
    return worked();
}

Observation user_namespaces(const Setting&) {
    auto seen = enter_user_namespace(CLONE_NEWPID);
    if (seen.worked()) {
        // The first process of the namespace may choose a number for its child.
        const pid_t first = ::fork();
        if (first == 0) ::_exit(can_choose_ids() ? 0 : 1);
        int status = 1;
        if (first > 0) ::waitpid(first, &status, 0);
        seen = worked(
            status == 0
                ? "can be made, with a choice of ids in them (unshare --user --map-root-user --pid --fork "
                  "--mount-proc)"
                : "can be made");
    }
    seen.facts["most"] = first_line("/proc/sys/user/max_user_namespaces");
    seen.facts["clone"] = first_line("/proc/sys/kernel/unprivileged_userns_clone");
    seen.facts["apparmor"] = first_line("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    return seen;
}

void refine_namespaces(Line& line, const Observation& seen, const Setting& setting) {
    if (seen.worked() || seen.killed()) return;
    if (setting.root) line.meaning = "not needed by root";
    if (seen.fact("most") == "0")
        line.remedy = "as root: sysctl user.max_user_namespaces=10000";
    else if (seen.fact("clone") == "0")
        line.remedy = "as root: sysctl kernel.unprivileged_userns_clone=1";
    else if (seen.fact("apparmor") == "1")
        line.remedy =
            "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for cairn with "
            "\"userns,\"";
    if (setting.root) line.remedy.clear();
}

// As restart/clock.cpp goes about it.
Observation continue_clocks(const Setting&) {
    if (::unshare(CLONE_NEWTIME) != 0) {
        if (errno != EPERM) return failed("unshare (CLONE_NEWTIME)");
        if (auto entered = enter_user_namespace(CLONE_NEWTIME); !entered.worked()) return entered;
    }
    if (!write_text("/proc/self/timens_offsets", "monotonic 100 0\nboottime 100 0\n"))
        return failed("/proc/self/timens_offsets");
    return worked("the programs' clocks go on from where they were, also after the machine has started anew");
}

Observation execute_by_descriptor(const Setting& setting) {
    const Fd program(
        ::open(setting.self.empty() ? "/proc/self/exe" : setting.self.c_str(), O_RDONLY | O_CLOEXEC));
    if (!program) return failed("cairn-doctor can't be opened");
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed("pipe");
    const Fd from(ends[0]);
    Fd to(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return failed("fork");
    if (child == 0) {
        std::string name = "cairn-doctor", option = "--version";
        const std::array<char*, 3> arguments{name.data(), option.data(), nullptr};
        const Fd nowhere(::open("/dev/null", O_WRONLY));
        ::dup2(nowhere.get(), STDOUT_FILENO);
        ::syscall(SYS_execveat, program.get(), "", arguments.data(), environ, AT_EMPTY_PATH);
        // As restart/become.cpp does where Linux 5.10 takes no empty path.
        if (errno == ENOENT)
            ::execve(fmt::format("/proc/self/fd/{}", program.get()).c_str(), arguments.data(), environ);
        const int number = errno;
        [[maybe_unused]] const ssize_t put = ::write(to.get(), &number, sizeof number);
        ::_exit(1);
    }
    to.reset();
    int number = 0;
    const bool refused = ::read(from.get(), &number, sizeof number) == sizeof number;
    ::waitpid(child, nullptr, 0);
    return refused ? failed("execveat (AT_EMPTY_PATH)", number) : worked();
}

Observation privileges(const Setting& setting) {
    struct Useful {
        int number;
        const char* name;
    };
    constexpr std::array useful{Useful{CAP_SYS_PTRACE, "SYS_PTRACE"},
                                Useful{CAP_SYS_ADMIN, "SYS_ADMIN"},
                                Useful{CAP_CHECKPOINT_RESTORE, "CHECKPOINT_RESTORE"},
                                Useful{CAP_NET_ADMIN, "NET_ADMIN"},
                                Useful{CAP_SYS_RESOURCE, "SYS_RESOURCE"},
                                Useful{CAP_SETUID, "SETUID"},
                                Useful{CAP_SETGID, "SETGID"},
                                Useful{CAP_CHOWN, "CHOWN"},
                                Useful{CAP_DAC_OVERRIDE, "DAC_OVERRIDE"}};
    std::string lacking;
    for (const auto& each : useful)
        if (!has_capability(each.number)) lacking += (lacking.empty() ? "" : ", ") + std::string(each.name);
    const bool bound = own_status("NoNewPrivs") == "1";
    auto seen = worked(setting.root ? setting.who : fmt::format("user {}", setting.user));
    if (bound) seen.said += ", with no_new_privs";
    seen.facts["lacking"] = lacking;
    return seen;
}

void refine_privileges(Line& line, const Observation& seen, const Setting& setting) {
    const auto lacking = seen.fact("lacking");
    if (!setting.root || lacking.empty()) return;
    line.state = State::note;
    line.found += " without " + lacking;
    line.meaning =
        "what these allow isn't done: programs that need them aren't brought back, or are as an ordinary "
        "user's";
    line.remedy = "only if a program needs one: " + add_capabilities(runtime_here(), "NAME");
}

void refine_clocks(Line& line, const Observation& seen, const Setting&) {
    const Runtime runtime = runtime_here();
    if (seen.worked() || (runtime == Runtime::none && own_status("Seccomp") != "2")) return;
    line.remedy = add_capabilities(runtime, "SYS_ADMIN SYS_TIME") + ", or restart with --clocks=host";
}

constexpr std::array restarts{
    Probe{Group::restart, "privileges", privileges, State::note, false, "", "", refine_privileges},
    Probe{Group::restart, "ids", exact_ids, State::note, false, "", "", refine_ids},
    Probe{Group::restart, "user_namespaces", user_namespaces, State::note, false,
          "an ordinary user can't have the old ids in the kernel (virtual ids do it)",
          "as root: allow user namespaces (in a container: a seccomp filter that allows unshare; in a chroot "
          "there are none)",
          refine_namespaces},
    Probe{Group::restart, "clocks", continue_clocks, State::missing, false,
          "a checkpoint from before a reboot, or of another machine, is refused but with --clocks=host; then "
          "waits may last too long",
          "an ordinary user needs user namespaces for it (see there), everybody a kernel with CONFIG_TIME_NS",
          refine_clocks},
    Probe{Group::restart, "execveat", execute_by_descriptor, State::missing, true,
          "no program can be restarted",
          "a kernel from 3.19 on; in a container: a seccomp filter that allows execveat"},
};

}  // namespace

std::span<const Probe> restart_probes() {
    return restarts;
}

}  // namespace cairn::doctor
