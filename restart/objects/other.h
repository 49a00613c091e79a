// Kinds of ObjectKind::other: a file each, beside its twin in capture/objects.
#pragma once

#include "restart/objects/opening.h"

namespace cairn::restart {

// Dispatches by Object::type. Sockets come all together: open_unix_sockets.
[[nodiscard]] bool is_socket(const schema::Object& object);
[[nodiscard]] Result<> open_other(Opening& opening, const schema::Object& object);

[[nodiscard]] Result<Fd> open_eventfd(const schema::Object& object);
[[nodiscard]] Result<Fd> open_signalfd(const schema::Object& object);

[[nodiscard]] Result<Fd> open_timerfd(const schema::Object& object);
[[nodiscard]] Result<> arm_timerfd(const schema::Object& object,
                                   int fd);  // when the programs are about to go on

[[nodiscard]] Result<Fd> open_epoll(const schema::Object& object);
// In the process that has the epoll: registrations are known by the number that the watched descriptor had
// there. `fd_of` gives an object's descriptor in this process at or above `floor`, or -1.
[[nodiscard]] Result<> watch(const schema::Object& object, int epoll, int floor,
                             const std::function<int(std::int64_t)>& fd_of);

[[nodiscard]] Result<Fd> open_pidfd(const schema::Object& object,
                                    const Translate& to_kernel);  // in the process
[[nodiscard]] Result<Fd> open_dead_pidfd(const schema::Object& object);

// After everything else: descriptors on their way through them may be anything.
[[nodiscard]] Result<> open_unix_sockets(Opening& opening);
[[nodiscard]] Result<> open_tcp_sockets(Opening& opening);
[[nodiscard]] Result<> open_datagram_sockets(Opening& opening);  // UDP, raw
[[nodiscard]] Result<Fd> open_netlink(Opening& opening, const schema::Object& object);

}  // namespace cairn::restart
