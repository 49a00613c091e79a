// Which processes of a computation over several hosts are on this one: those that have their slot in the
// region of this host's session. Names of hosts don't tell: a relay is answered by its root, and --host gives
// any name.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/fd.h"
#include "common/region.h"
#include "common/session.h"
#include "common/uid.h"
#include "common/wire/events.h"

namespace cairn {

class OwnRegion {
  public:
    explicit OwnRegion(const Session& session) {
        const Fd file(::open(session.region().c_str(), O_RDONLY | O_CLOEXEC));
        struct stat status {};
        if (!file || ::fstat(file.get(), &status) != 0 ||
            status.st_size != static_cast<off_t>(sizeof(Region)))
            return;
        void* const at = ::mmap(nullptr, sizeof(Region), PROT_READ, MAP_SHARED, file.get(), 0);
        if (at != MAP_FAILED) region_ = static_cast<const Region*>(at);
    }
    OwnRegion(const OwnRegion&) = delete;
    OwnRegion& operator=(const OwnRegion&) = delete;
    ~OwnRegion() {
        if (region_ != nullptr) ::munmap(const_cast<Region*>(region_), sizeof(Region));
    }

    // One without a host's name is: there is only this host.
    [[nodiscard]] bool has(const wire::Process& process) const {
        if (!process.host) return true;
        if (region_ == nullptr) return false;
        const std::uint64_t born = born_of_uid(process.uid);
        return std::ranges::any_of(region_->slots, [&](const Slot& slot) {
            return slot.pid.load() == process.real.number() && slot.born_ns.load() == born;
        });
    }

  private:
    const Region* region_ = nullptr;
};

}  // namespace cairn
