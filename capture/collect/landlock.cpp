#include "capture/collect/landlock.h"

#include <fmt/format.h>
#include <linux/capability.h>

#include <algorithm>

#include "common/human.h"
#include "common/landlock_room.h"
#include "common/proc.h"

namespace cairn::capture {
namespace {

// Without either of them landlock_restrict_self(2) is EPERM. Both are inherited; who had the capability and
// gave it up afterwards isn't seen here, but by the library (Door::restricts).
AskLandlock by_rights(const schema::Thread& image) {
    if (image.no_new_privs) return AskLandlock::promised;
    const bool capable = (image.cap_effective & std::uint64_t{1} << CAP_SYS_ADMIN) != 0;
    return capable ? AskLandlock::if_blind : AskLandlock::if_seen;
}

// The child would be the first process of a pid namespace that nobody is in, and that namespace end with it.
bool can_be_asked(const StoppedProcess& process, const StoppedThread& thread) {
    return !thread.landlock_forbidden && !process.empty_pids;
}

}  // namespace

std::int32_t own_landlock_room() {
    static const std::int32_t room = landlock_room();
    return room;
}

AskLandlock whether_to_ask(const StoppedProcess& process, const StoppedThread& thread,
                           const schema::Thread& image) {
    const std::int32_t own = own_landlock_room();
    if (own < 0 || own == landlock_not_there || !can_be_asked(process, thread)) return AskLandlock::never;
    return by_rights(image);
}

Result<> LandlockJudge::judge(const StoppedProcess& process, const std::vector<AgentThread>& answers,
                              schema::Process& image) {
    const std::int32_t own = own_landlock_room();
    if (own < 0 || own == landlock_not_there) return {};
    bool unknown = false;
    for (std::size_t i = 0; i < process.threads.size(); ++i) {
        const auto& thread = process.threads[i];
        if (thread.leader_dead) continue;
        const std::int32_t room = answers[i].landlock_room;
        if (room == landlock_not_known) unknown = true;
        if (!can_be_asked(process, thread) && by_rights(image.threads[i]) == AskLandlock::promised)
            unknown = true;
        if (room >= 0 && room < own) image.threads[i].landlock_layers = own - room;
    }
    if (unknown && unknown_++ == 0) first_unknown_ = proc::label(process.pid);
    const auto restricted = std::ranges::find_if(
        image.threads, [](const schema::Thread& thread) { return thread.landlock_layers.has_value(); });
    if (restricted == image.threads.end()) return {};
    if (policy_ == LandlockPolicy::refuse)
        return fail_code(ExitCode::refused,
                         "{}: thread {} is restricted by Landlock (landlock(7)), and the kernel shows nobody "
                         "to what: a restart would bring it back without. Start the program without its "
                         "sandbox, or say --landlock=drop",
                         proc::label(process.pid), restricted->kernel_tid.number());
    note_(
        fmt::format("{} is restricted by Landlock (landlock(7)): after a restart it isn't (--landlock=drop)",
                    proc::label(process.pid)));
    return {};
}

void LandlockJudge::note_unknown() const {
    if (unknown_ == 0) return;
    note_(fmt::format(
        "{}{} couldn't be asked whether Landlock (landlock(7)) restricts it, because of a seccomp filter, a "
        "limit, or a pid namespace that nobody is in: if it does, it doesn't after a restart",
        first_unknown_,
        unknown_ == 1
            ? ""
            : fmt::format(" and {}", human_count(unknown_ - 1, "other process", "other processes"))));
}

}  // namespace cairn::capture
