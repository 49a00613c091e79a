// Names are looked up with the rights of the processes that had what they lead to, not with the tool's.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/schema/process.h"

namespace cairn::restart {

// What the kernel asks of a process that opens a name.
struct Rights {
    uid_t user = 0;  // fsuid
    gid_t group = 0;
    std::vector<gid_t> groups;       // sorted
    std::uint64_t capabilities = 0;  // permitted: what it could have made effective by itself

    auto operator<=>(const Rights&) const = default;
};

[[nodiscard]] Rights rights_of(const schema::Process& process);
[[nodiscard]] const Rights& own_rights();

// May the tool take other rights than its own? An ordinary user's can't, and needn't: whom it brings back can
// do no more than he. Nor is there anything to take where they are the tool's own.
[[nodiscard]] bool must_take(const Rights& rights);

// As long as this lives the calling thread has these rights, and those only: fsuid, fsgid, groups, and no
// capability that the process had not. By the kernel's calls, which change this thread alone; what is forked
// meanwhile would keep them. Real and effective uid stay, so that nobody may trace or signal the tool
// meanwhile who might not before. Ended by the destructor; the process is ended where that fails, for nothing
// good could come of it.
class ActingAs {
  public:
    // Errors: a user that this user namespace doesn't know.
    [[nodiscard]] static Result<ActingAs> begin(const Rights& rights);
    ActingAs(ActingAs&& other) noexcept
        : active_(std::exchange(other.active_, false)), groups_(other.groups_) {}
    ActingAs& operator=(ActingAs&&) = delete;
    ~ActingAs();

  private:
    ActingAs(bool active, bool groups) : active_(active), groups_(groups) {}
    bool active_;
    bool groups_;  // they are others than the tool's: a user namespace may forbid to set any
};

// open(2) of the regular file that `place` leads to. The mode of his own file may forbid it to a user who has
// it open (git's packs, a file that was opened with mode 0): then it has another mode for the moment. No
// descriptor, and errno, where it can't be.
[[nodiscard]] Fd open_as_owner(int place, int flags);

}  // namespace cairn::restart
