// What the restores of all kinds of sockets share.
#pragma once

#include <sys/socket.h>

#include <functional>

#include "resources/restore/opening.h"
#include "resources/socket/schema.h"

namespace cairn::restart {

// setsockopt(2) of an int; an error is none.
void set_int(int fd, int level, int option, int value);

// Options as they were, those only that a new socket hasn't anyway.
void set_socket_options(int fd, const schema::SocketOptions& options, schema::OptionMoment moment);

// Buffers as they were, and whether the kernel may tune them.
void set_buffers(int fd, const schema::SocketOptions& options);

// For the moment: buffers that hold whatever two ends held together.
void make_room(int fd, std::size_t bytes);

// O_NONBLOCK, O_ASYNC apart: as they were.
[[nodiscard]] Result<> set_flags(int fd, const schema::Object& object);

// How shutdown(2) was called, by RCV_SHUTDOWN 1 and SEND_SHUTDOWN 2 of the kernel.
void shut_down(int fd, int which);

// Runs `call` in a process with these ids, which has the caller's descriptors and ends at once: who calls
// socketpair, connect and listen is what SO_PEERCRED tells of a Unix socket's peer. 0 or an errno value.
// Where such a process can't be made (ids are virtual, no privilege, the pid is somebody's) the caller itself
// calls.
[[nodiscard]] int call_as(const schema::Credentials& who, bool possible, const std::function<int()>& call);

}  // namespace cairn::restart
