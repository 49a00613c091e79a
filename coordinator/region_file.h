// The session's region as the coordinator holds it: made anew, or found after another coordinator's death.
#pragma once

#include <string>

#include "common/error.h"
#include "common/fd.h"
#include "common/region.h"
#include "common/session.h"
#include "coordinator/process_info.h"

namespace cairn::coordinator {

class RegionFile {
  public:
    // A region that is whole, of our version and used by somebody is adopted. Anything else is replaced by a
    // new file (new inode: whoever has mapped the old one keeps it; a mapped file is never truncated:
    // SIGBUS). Refused when living processes use a region of another version.
    [[nodiscard]] static Result<RegionFile> open(const Session& session);

    // The region that a descriptor leads to; `name` is for messages. Nothing is checked but its size.
    [[nodiscard]] static Result<RegionFile> map(const Fd& fd, const std::string& name, bool adopted);

    RegionFile(RegionFile&& other) noexcept
        : region_(std::exchange(other.region_, nullptr)), key_(other.key_), adopted_(other.adopted_) {}
    RegionFile& operator=(RegionFile&&) = delete;
    ~RegionFile();

    [[nodiscard]] Region& operator*() const { return *region_; }
    [[nodiscard]] Region* operator->() const { return region_; }
    [[nodiscard]] const FileKey& key() const { return key_; }
    [[nodiscard]] bool adopted() const { return adopted_; }

  private:
    RegionFile(Region* region, FileKey key, bool adopted) : region_(region), key_(key), adopted_(adopted) {}

    static Result<RegionFile> create(const Session& session);

    Region* region_;
    FileKey key_;
    bool adopted_;
};

// Does a process that lives belong to this slot? `slot` must be running or exec.
[[nodiscard]] bool slot_is_alive(const Slot& slot, const FileKey& region);

// The pid of the slot was given to a process that started after the slot was filled.
[[nodiscard]] bool started_after(const Slot& slot, const ProcessInfo& info);

// Forgets all virtual ids. Only when nobody who could look them up is left.
void clear_ids(IdMap& ids);

}  // namespace cairn::coordinator
