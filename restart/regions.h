// The regions of the session that a restart brings its processes to: the owner's, and one for each other user
// that some of them run as (docs/decisions/0006-other-users.md).
#pragma once

#include <sys/types.h>

#include <vector>

#include "common/client.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/region.h"
#include "common/region_mapping.h"
#include "common/schema/process.h"
#include "common/session.h"

namespace cairn::restart {

struct SessionRegion {
    uid_t user = 0;
    bool owners = false;
    Region* region = nullptr;
    FileKey key;
    Fd fd;  // inherited by the processes, at or above the floor
};

class Regions {
  public:
    // `floor`: the lowest number for a descriptor of ours. The coordinator is asked for those of other users.
    [[nodiscard]] Result<> open(const Session& session, const std::vector<schema::Process>& processes,
                                int floor);

    [[nodiscard]] Region& owners() const { return *all_.front().region; }
    [[nodiscard]] const Fd& owners_fd() const { return all_.front().fd; }
    [[nodiscard]] bool is_open() const { return !all_.empty(); }
    [[nodiscard]] const std::vector<SessionRegion>& all() const { return all_; }
    [[nodiscard]] const SessionRegion& of(const schema::Process& process) const;

    // What the owner's region says of ids, System V objects and sockets is in all of them.
    void share_names() const;
    void close_descriptors();

  private:
    [[nodiscard]] Result<> add(const std::string& path, uid_t user, int floor);

    std::vector<SessionRegion> all_;
};

}  // namespace cairn::restart
