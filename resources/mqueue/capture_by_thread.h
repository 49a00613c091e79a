// Notifications of POSIX message queues by a thread (SIGEV_THREAD of mq_notify(3)): libc has the kernel put
// some bytes of its own into a netlink socket, which a thread of libc's reads (AgentRenewal in
// common/agent.h).
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "resources/capture/table.h"
#include "resources/mqueue/schema.h"

namespace cairn::capture {

// Both of these while the group stands still.

// A member (kernel's id) that is to be notified of this queue by a thread.
struct ByThread {
    pid_t process = 0;
    std::string queue;
};

// That the sockets of all these are among the group's descriptors. One whose socket is closed works on for
// the kernel, and nobody could ask for it again: refused. Refused for the moment while something waits in a
// socket.
[[nodiscard]] Result<> find_notice_sockets(const Table& table, const std::vector<ByThread>& wanted);

// What `process` (kernel's id), which is the one to be notified of this queue, has asked for. `queue`: all
// descriptions of it. It is asked for anew for that.
[[nodiscard]] Result<RenewedNotice> notice_of(const Table& table, pid_t process,
                                              std::span<const std::int64_t> queue);

}  // namespace cairn::capture
