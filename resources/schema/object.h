// Kernel objects that more than one process may hold: open file descriptions, files, pipes, terminals, shared
// memory. Saved once for each part of a computation, in its objects image.
#pragma once

#include <variant>

#include "common/schema/process.h"
#include "resources/datagram/schema.h"
#include "resources/epoll/schema.h"
#include "resources/eventfd/schema.h"
#include "resources/fanotify/schema.h"
#include "resources/file/schema.h"
#include "resources/inotify/schema.h"
#include "resources/memory/schema.h"
#include "resources/mqueue/schema.h"
#include "resources/namespace/schema.h"
#include "resources/netlink/schema.h"
#include "resources/packet/schema.h"
#include "resources/pidfd/schema.h"
#include "resources/pipe/schema.h"
#include "resources/signalfd/schema.h"
#include "resources/system_v/schema.h"
#include "resources/tcp/schema.h"
#include "resources/terminal/schema.h"
#include "resources/timerfd/schema.h"
#include "resources/unix_socket/schema.h"

namespace cairn::schema {

// What an object is, and what its kind says of it: each in its room's schema.h.
using What = std::variant<File, Pipe, Fifo, PtyMaster, PtySlave, Terminal, Memory, Datagram, Epoll, Eventfd,
                          Fanotify, Inotify, MessageQueue, Mqueue, Namespace, Netlink, Packet, Pidfd,
                          Semaphores, Signalfd, Tcp, Timerfd, UnixSocket>;

struct Object {
    std::int64_t id = -1;
    std::string path;      // as /proc/PID/fd says, " (deleted)" cut off
    bool deleted = false;  // no name: contents are in a Memory
    FileIdentity identity;
    std::int32_t flags = 0;  // O_* of the description
    std::int64_t position = 0;
    std::int32_t owner = 0, owner_type = 0, owner_signal = 0;  // F_SETOWN_EX, F_SETSIG
    std::int32_t standard = -1;  // lowest of the descriptors 0, 1, 2 that a process has it at, -1: none
    bool outside = false;        // who holds the other end of this pipe or socket is no member of the group
    std::int64_t backing = -1;   // file: id of the memory object with the contents (deleted file, memfd)
    std::int64_t pipe = -1;      // pipes, FIFOs, sockets: id of the pipe or connection, shared by its ends
    // The same: what is in them, a packet or a message each; else one.
    std::vector<Bytes> contents;

    What what;

    template <class T>
    [[nodiscard]] bool is() const {
        return std::holds_alternative<T>(what);
    }
    // None if it is of another kind.
    template <class T>
    [[nodiscard]] const T* get() const {
        return std::get_if<T>(&what);
    }
    template <class T>
    [[nodiscard]] T* get() {
        return std::get_if<T>(&what);
    }
};

// "file", "eventfd", "tcp"
[[nodiscard]] inline std::string_view kind_of(const Object& object) {
    return std::visit([]<class T>(const T&) { return T::kind; }, object.what);
}

struct Objects {  // root of the objects image
    std::string cid;
    std::int32_t np = 0;
    std::vector<Object> objects;
};

}  // namespace cairn::schema
