// What the runtime of a container withholds of what cairn uses, all together and in that runtime's words.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>

#include "cli/doctor/container.h"
#include "cli/doctor/look.h"
#include "cli/doctor/probe.h"
#include "common/choose_ids.h"
#include "common/fd.h"
#include "common/same.h"

namespace cairn::doctor {
namespace {

// A filter answers EPERM, or ENOSYS as if the kernel were older.
bool refused() {
    return errno == EPERM || errno == ENOSYS;
}

bool kcmp_refused() {
    return ::syscall(SYS_kcmp, ::getpid(), ::getpid(), KCMP_VM, 0, 0) < 0 && refused();
}

bool fetching_refused() {
    const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U)));
    const Fd fetched(static_cast<int>(::syscall(SYS_pidfd_getfd, self.get(), STDIN_FILENO, 0U)));
    return self && !fetched && refused();
}

bool faults_refused() {
    const Fd fault(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
    return !fault && refused();
}

// As restart/clock.cpp goes about it. A namespace is for good; the next probes are in processes of their own.
bool clocks_refused() {
    if (::unshare(CLONE_NEWTIME) == 0) return !has_capability(CAP_SYS_TIME);
    return ::unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0 && refused();
}

Observation look_at_container(const Setting& setting) {
    const Runtime runtime = runtime_here();
    auto seen =
        worked(runtime == Runtime::none ? "none that says so" : fmt::format("{}'s", name_of(runtime)));
    seen.facts["runtime"] = std::to_string(static_cast<int>(runtime));
    const bool filtered = own_status("Seccomp") == "2";
    if (runtime == Runtime::none && !filtered) return seen;
    std::string withheld, names;
    const auto note = [](std::string& list, std::string_view word, std::string_view between) {
        if (list.find(word) == std::string::npos)
            list += fmt::format("{}{}", list.empty() ? "" : between, word);
    };
    const bool ids = setting.root && !can_choose_ids();
    const bool kcmp = kcmp_refused(), fetching = fetching_refused();
    if (kcmp) note(withheld, "kcmp", ", ");
    if (fetching) note(withheld, "pidfd_getfd", ", ");
    if ((kcmp || fetching) && runtime != Runtime::nspawn) note(names, "SYS_PTRACE", " ");
    const bool faults = faults_refused();
    if (faults) note(withheld, "userfaultfd", ", ");
    if (ids) note(withheld, "the choice of process ids", ", ");
    if (ids && runtime == Runtime::podman) note(names, "CHECKPOINT_RESTORE", " ");
    const bool clocks = clocks_refused();
    if (clocks) note(withheld, "namespaces for clocks", ", ");
    // Docker hides clone3 from who hasn't this one.
    if (clocks || (ids && runtime != Runtime::podman)) note(names, "SYS_ADMIN", " ");
    if (clocks) note(names, "SYS_TIME", " ");
    seen.facts["withheld"] = withheld;
    const bool more = faults || (runtime == Runtime::nspawn && (kcmp || fetching));
    seen.facts["more"] = more ? "1" : "0";
    seen.facts["names"] = names;
    return seen;
}

void refine_container(Line& line, const Observation& seen, const Setting&) {
    if (seen.killed()) {  // by one of the calls, whose own line says what that means
        line.state = State::note;
        line.found = "whose filter kills who makes a call that it forbids";
        line.meaning = line.remedy = "";
    }
    const auto withheld = seen.fact("withheld");
    if (!seen.worked() || withheld.empty()) return;
    const auto runtime = static_cast<Runtime>(seen.number("runtime"));
    line.state = State::note;
    line.meaning = fmt::format(
        "it withholds {}; cairn works without, and the lines below say what each costs", withheld);
    line.remedy = "none of it is needed";
    if (const auto names = seen.fact("names"); !names.empty())
        line.remedy += fmt::format("; {} allows {}", add_capabilities(runtime, names),
                                   seen.fact("more") == "1" ? "a part of it" : "it");
}

constexpr std::array containers{
    Probe{Group::checkpoint, "container", look_at_container, State::note, false, "", "", refine_container},
};

}  // namespace

std::span<const Probe> container_probes() {
    return containers;
}

}  // namespace cairn::doctor
