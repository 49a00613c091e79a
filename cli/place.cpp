#include "cli/place.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "common/map_region.h"
#include "common/region_ops.h"

namespace cairn::cli {
namespace {

// Pids of one namespace mean nothing in another.
bool same_pid_namespace(const Region& region) {
    struct stat own {};
    const std::uint64_t wanted = region.pid_namespace.load();
    return wanted == 0 || ::stat("/proc/self/ns/pid", &own) != 0 || own.st_ino == wanted;
}

Region* map_region(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    struct stat info {};
    Region* at = nullptr;
    // A shorter file would kill us by SIGBUS.
    if (::fstat(fd, &info) == 0 && info.st_size >= static_cast<off_t>(sizeof(Region)))
        at = map_whole_region(fd);
    ::close(fd);
    return at;
}

// As libcairn.so does for its own process. The state is that of a process whose new image has not come as
// far.
void register_here(Slot& slot, Region& region, KernelId pid) {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    slot.born_ns.store(static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                       static_cast<std::uint64_t>(now.tv_nsec));
    set_program_pid(slot, pid, program_id(region.ids, pid));
    slot.state.store(SlotState::exec, std::memory_order_release);
    region.changes.fetch_add(1);
    ::syscall(SYS_futex, &region.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

Place::Place(const std::string& path, bool loads_library) {
    Region* const region = map_region(path);
    region_ = region;
    if (region == nullptr || region->magic != region_magic || region->version != region_version ||
        !same_pid_namespace(*region))
        return;
    const KernelId pid(::getpid());
    // A shell of the session has forked for this command, and announced the birth.
    if (find_slot(*region, pid) != no_slot) return;
    constexpr int looks = 20;
    constexpr timespec pause = {0, 10'000'000};
    for (int look = 0; look < looks; ++look) {
        if (look > 0) ::nanosleep(&pause, nullptr);
        slot_ = claim_slot(*region, KernelId(::getppid()));
        if (slot_ == no_slot) continue;
        // As a child of vfork leaves it that is about to exec: a birth whose pid is known, emptied by the
        // coordinator if we end before.
        name_slot(*region, slot_, pid);
        if (!loads_library) register_here(region->slots[slot_], *region, pid);
        return;
    }
    taken_ = slots_of(*region);
}

Place::~Place() {
    auto* const region = static_cast<Region*>(region_);
    if (slot_ != no_slot && region->slots[slot_].pid.load() == ::getpid()) release_slot(*region, slot_);
    if (region != nullptr) ::munmap(region, sizeof(Region));
}

}  // namespace cairn::cli
