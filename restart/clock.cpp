#include "restart/clock.h"

#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

#include "common/fd.h"
#include "common/proc.h"

namespace cairn::restart {
namespace {

constexpr std::int64_t second = 1'000'000'000;

std::int64_t now(clockid_t clock) {
    timespec time = {};
    ::clock_gettime(clock, &time);
    return time.tv_sec * second + time.tv_nsec;
}

Result<> write_file(const char* path, const std::string& text) {
    const Fd fd(::open(path, O_WRONLY | O_CLOEXEC));
    if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return fail_errno("{}", path);
    return {};
}

Result<> enter_namespaces() {
    if (::unshare(CLONE_NEWTIME) == 0) return {};
    if (errno != EPERM) return fail_errno("time namespace");
    const auto uid = ::geteuid();
    const auto gid = ::getegid();
    if (::unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0) return fail_errno("user and time namespace");
    CHECK_OK(write_file("/proc/self/setgroups", "deny"));
    CHECK_OK(write_file("/proc/self/uid_map", fmt::format("{} {} 1", uid, uid)));
    return write_file("/proc/self/gid_map", fmt::format("{} {} 1", gid, gid));
}

// Each container of systemd-nspawn's has a boot_id of its own. The machine is the same and hasn't started
// anew if its clocks stand to the time of day as they did: what slows or speeds up the one does so to the
// others, and a step of the time of day is none of theirs.
bool same_course(const schema::Manifest& manifest) {
    const auto of_day = now(CLOCK_REALTIME);
    const auto moved = [&](clockid_t clock, std::int64_t saved) {
        return std::abs((of_day - now(clock)) - (manifest.taken_at_ns - saved));
    };
    return moved(CLOCK_MONOTONIC, manifest.monotonic_ns) < second &&
           moved(CLOCK_BOOTTIME, manifest.boottime_ns) < second;
}

}  // namespace

Result<std::int64_t> continue_clocks(const schema::Manifest& manifest, Clocks how) {
    const auto boot = proc::read_file("/proc/sys/kernel/random/boot_id");
    const bool other_boot = boot && boot->substr(0, 36) != manifest.boot_id && !same_course(manifest);
    const bool behind = now(CLOCK_MONOTONIC) < manifest.monotonic_ns;
    if (how == Clocks::host || (how == Clocks::automatic && !other_boot && !behind)) return 0;
    if (auto done = enter_namespaces(); !done)
        return std::unexpected(std::move(done.error())
                                   .in("the programs' clock can't go on from where it was (this machine has "
                                       "started anew since; without "
                                       "it waits may last too long; --clocks=host leaves it alone)"));
    // Offsets count from the machine's clock, and ours may have one already.
    const auto inherited = proc::clock_offsets("self");
    const auto shift = manifest.monotonic_ns - now(CLOCK_MONOTONIC);
    const auto text = proc::offsets_text(
        {inherited.monotonic + shift, inherited.boottime + manifest.boottime_ns - now(CLOCK_BOOTTIME)});
    if (auto done = write_file("/proc/self/timens_offsets", text); !done)
        return std::unexpected(
            std::move(done.error())
                .in("the programs' clock can't go on from where it was (root needs CAP_SYS_TIME for it, "
                    "which a "
                    "container isn't given as a rule; --clocks=host leaves the clock alone)"));
    return shift;
}

}  // namespace cairn::restart
