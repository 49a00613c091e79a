// One coordinator for each session: the lock, and leaving the terminal.
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "common/error.h"
#include "common/fd.h"
#include "common/ids.h"
#include "common/session.h"

namespace cairn::coordinator {

struct Running {  // the coordinator that is there already
    int pid = 0;  // 0: it doesn't say
};

// The session's lock, or who holds it and answers. Waits some seconds for one that is just starting or
// ending. Errors: ExitCode::timed_out if it is held by one that does not answer.
struct Lock {
    Fd held;
    Fd name;  // name_lock.h
    std::optional<Running> other;
};
[[nodiscard]] Result<Lock> lock_session(const Session& session);

// Where the log that stderr goes to was removed: into a new one of that name.
void reopen_log(const Session& session);

// Goes on in a child of init, in a session of its own, stdin from /dev/null, stdout and stderr into the log.
// The child's number is none of `avoid`.
// The caller's process waits until ready() was called (exit code 0) or the child has ended (its exit code).
class Daemon {
  public:
    [[nodiscard]] static Result<Daemon> become(const Session& session, const std::set<KernelId>& avoid);
    void ready();

  private:
    explicit Daemon(Fd report) : report_(std::move(report)) {}
    Fd report_;
};

}  // namespace cairn::coordinator
