// What processes have in common since a clone(2), and a restart can't give back to them.
#include "capture/collect/collect.h"
#include "common/same.h"

namespace cairn::capture {
namespace {

struct Shareable {
    Common what;
    const char* name;
    const char* flag;
    const char* consequence;
};

constexpr Shareable shareables[] = {
    {Common::memory, "memory", "CLONE_VM", "neither would see what the other writes"},
    {Common::descriptors, "descriptor table", "CLONE_FILES",
     "neither would have what the other opens or closes"},
    {Common::folders, "working folder, root folder and umask", "CLONE_FS",
     "neither would follow the other's chdir, chroot or umask"},
    {Common::semaphore_undo, "list of semaphore operations to be undone", "CLONE_SYSVSEM",
     "they would be undone when the first of them ends"},
};

}  // namespace

// It may be over at the next look: exec leaves common memory and descriptors, and a short-lived child of such
// a clone ends. Two that are just being killed have nothing any more, which compares as equal.
Result<> refuse_sharing(const std::map<pid_t, StoppedProcess>& processes) {
    std::vector<pid_t> tids;
    std::map<pid_t, pid_t> process_of;
    for (const auto& [pid, process] : processes) {
        const pid_t tid = process.first_living().tid;
        tids.push_back(tid);
        process_of.emplace(tid, pid);
    }
    for (const auto& each : shareables) {
        const auto found = TRY(find_common(each.what, tids));
        if (!found) continue;
        auto refusal =
            fail_code(ExitCode::refused,
                      "{} shares its {} with {} (clone with {}), which can't be saved: after a restart {}",
                      proc::label(process_of.at(found->second)), each.name,
                      proc::label(process_of.at(found->first)), each.flag, each.consequence);
        refusal.error().passing = true;
        return refusal;
    }
    return {};
}

}  // namespace cairn::capture
