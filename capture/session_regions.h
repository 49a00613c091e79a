// The regions of the session whose processes are saved: the owner's, whose word counts, and those of other
// users, each of which says something of that user's own processes and of nothing else
// (docs/decisions/0006-other-users.md).
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "capture/own_library.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/region.h"
#include "common/region_mapping.h"

namespace cairn::capture {

struct SessionRegion {
    uid_t user = 0;
    Region* region = nullptr;
    FileKey key;
    bool owners = false;
    Fd file;  // may be handed to this user's members; what Region::path says is only their word
};

class SessionRegions {
  public:
    struct Other {  // another user's, as the coordinator tells of it
        uid_t user = 0;
        std::string path;
    };
    // What the coordinator knows of a member of another user's.
    struct Known {
        std::uint64_t born_ns = 0;
        ProgramAddress door;  // told by a restart
    };

    // `owners`: path of the owner's region. `known`: by pid.
    [[nodiscard]] static Result<SessionRegions> open(const std::string& owners,
                                                     const std::vector<Other>& others,
                                                     std::map<pid_t, Known> known);

    [[nodiscard]] Region& owners() const { return *all_.front().region; }
    [[nodiscard]] uid_t owner() const { return all_.front().user; }
    [[nodiscard]] const std::vector<SessionRegion>& all() const { return all_; }

    // The region whose slot of this process may be believed; null if there is none for the user that it runs
    // as, or if it has gone.
    [[nodiscard]] const SessionRegion* of(pid_t pid) const;
    // Whether it runs as a user who has a region here. What others say of themselves, by their environment
    // and by what they have mapped, anybody on the machine could.
    [[nodiscard]] bool has_user_of(pid_t pid) const;
    void set_capture(std::uint64_t number) const;
    // False: somebody has taken the number back, and nobody may be visited by an agent again.
    [[nodiscard]] bool has_capture(std::uint64_t number) const { return owners().capture.load() == number; }

    // Whether the kernel says that a process has this region mapped at `region_at`, and our library, whose
    // Door is at `door`. The owner's own processes are believed.
    [[nodiscard]] bool confirms(const SessionRegion& region, pid_t living, ProgramAddress region_at,
                                ProgramAddress door) const;
    // Where our library's Door is in a process, none if it has not mapped that file: a restored one has a
    // copy.
    [[nodiscard]] ProgramAddress door_in(pid_t living) const;
    [[nodiscard]] Result<OwnLibrary> library() const;
    // When it was born, if somebody else than its own user says so.
    [[nodiscard]] std::optional<std::uint64_t> born_ns(const SessionRegion& region, pid_t pid) const;

    // What programs call this process or thread.
    [[nodiscard]] ProgramId to_program(KernelId kernel) const;
    // The System V objects of all regions: of other users' only those that are open to them, and only
    // promises of their own processes.
    [[nodiscard]] IpcMap& ipc();

  private:
    std::vector<SessionRegion> all_;
    std::map<pid_t, Known> known_;
    std::set<ProgramAddress> doors_;             // that restarts have told of
    mutable std::optional<OwnLibrary> library_;  // read when somebody asks
    std::unique_ptr<IpcMap> merged_;
};

}  // namespace cairn::capture
