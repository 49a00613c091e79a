// A connection between two sockets of this tool's: one calls the other.
#pragma once

#include "common/error.h"
#include "common/fd.h"
#include "resources/socket/restore_addresses.h"
#include "resources/socket/schema.h"

namespace cairn::restart {

// With buffers that its program has set: they have a say in the window's scale.
[[nodiscard]] Fd make_tcp_socket(int domain, const schema::SocketOptions& options);

// `by_connect`: a port that others are bound to may be taken (take_for_call).
[[nodiscard]] bool take_address(int fd, const Address& own, bool by_connect);

// Until a connect(2) that was begun has come to its end, with its error.
[[nodiscard]] Result<> wait_connected(int fd);

struct CallSide {
    int domain = 0;
    const schema::SocketOptions& options;
    const Address& at;  // empty: wherever
};
// `caller` calls `answerer`; both are made.
[[nodiscard]] Result<> call(const CallSide& from, Fd& caller, const CallSide& to, Fd& answerer);

}  // namespace cairn::restart
