// All regions of a session: its owner's, and one for each other user whom members have become.
//
// A region is written by the processes of one user and read as what that user claims of his own processes
// (docs/decisions/0006-other-users.md). Only a session of root's has more than its owner's: nobody else's
// processes can become another user.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/session.h"
#include "coordinator/region_file.h"

namespace cairn::coordinator {

// Where a slot is: the number of its region and its index there, as one number.
using Place = std::uint32_t;

class Regions {
  public:
    Regions(const Session& session, RegionFile owners);

    // Finds those that an earlier coordinator has made and that somebody still has mapped. What can't be had
    // is left out: its processes are strangers then.
    void adopt();

    [[nodiscard]] Region& owners() const { return *all_.front().file; }
    [[nodiscard]] bool adopted() const { return all_.front().file.adopted(); }
    [[nodiscard]] std::size_t size() const { return all_.size(); }
    [[nodiscard]] Region& operator[](std::size_t number) const { return *all_[number].file; }
    [[nodiscard]] const FileKey& key(std::size_t number) const { return all_[number].file.key(); }
    // Not what the region itself says: its processes can write there.
    [[nodiscard]] uid_t user(std::size_t number) const { return all_[number].user; }
    [[nodiscard]] uid_t owner() const { return all_.front().user; }

    static Place place(std::size_t number, std::uint32_t index) {
        return static_cast<Place>(number) * slot_count + index;
    }
    [[nodiscard]] static std::size_t number_of(Place place) { return place / slot_count; }
    [[nodiscard]] static std::uint32_t index_of(Place place) { return place % slot_count; }
    [[nodiscard]] Region& region_of(Place place) const { return (*this)[number_of(place)]; }
    [[nodiscard]] Slot& slot(Place place) const { return region_of(place).slots[index_of(place)]; }

    // The region of this user's processes; it is made if there is none yet. Returns its number.
    [[nodiscard]] Result<std::size_t> of_user(uid_t user);
    // Told of each that is made or adopted.
    std::function<void(std::size_t number)> made;

    // A path by which the owner's own programs (capture, restart) can open it, as long as we live.
    [[nodiscard]] std::string path(std::size_t number) const;
    // A descriptor of it for somebody else.
    [[nodiscard]] Result<Fd> descriptor(std::size_t number) const;

    // Names that came up in one region are entered in the others. `is_members`: whether a thread's id is one
    // of a member that runs as this user.
    void share_ids(const std::function<bool(KernelId id, uid_t user)>& is_members) const;
    // Forgets ids of processes and System V objects and names of sockets. Only when nobody is left who could
    // know them.
    void clear_names() const;
    // The number of the checkpoint that is being taken, 0: none (Region::capture).
    void set_capture(std::uint64_t number) const;
    // Births that found no free slot.
    [[nodiscard]] std::uint32_t overflow() const;
    // What all regions say of the coordinator.
    void set_coordinator(pid_t pid) const;
    // For whoever looks into the region.
    void note_ckptdir(const std::string& folder) const;
    // Writes down, in the session's folder, whose there are, for a coordinator that is started again.
    void note_users() const;

  private:
    struct One {
        uid_t user = 0;
        RegionFile file;
        Fd fd;  // of another user's; the owner's has a path
    };
    [[nodiscard]] Result<Fd> create(uid_t user) const;
    void enter(uid_t user, RegionFile file, Fd fd);

    const Session& session_;
    std::vector<One> all_;
};

}  // namespace cairn::coordinator
