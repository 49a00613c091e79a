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
#include "resources/netlink/schema.h"
#include "resources/packet/schema.h"
#include "resources/pidfd/schema.h"
#include "resources/signalfd/schema.h"
#include "resources/system_v/schema.h"
#include "resources/tcp/schema.h"
#include "resources/timerfd/schema.h"
#include "resources/unix_socket/schema.h"

namespace cairn::schema {

enum class ObjectKind {
    file,  // a regular file or directory or device by path: an open file description, or a file that is
           // mapped, executed, or somebody's cwd (flags: O_RDWR if mapped shared and writable, else O_RDONLY)
    pipe_read,
    pipe_write,
    pipe_both,  // an end of pipe `pipe`
    fifo,       // a named FIFO; `pipe` tells which ends are of one FIFO
    pty_master,
    pty_slave,  // both ends inside; `pty` tells the pair
    terminal,   // the slave of a terminal whose master is outside: what the program was started from
    memory,  // an inode whose contents are in `pages`; `type` is one of anonymous (MAP_SHARED|MAP_ANONYMOUS),
             // memfd, sysv, file (deleted, or kept in memory only as in /dev/shm). Mapped, or the `backing`
             // of descriptions (flags: O_RDWR if mapped shared and writable; O_TMPFILE if it was made so)
    other,   // has a room and a schema of its own: `what`
};

// What the kinds with a schema of their own say, each in its room's schema.h. Nothing: everything is in the
// object's own fields.
using What =
    std::variant<std::monostate, Datagram, Epoll, Eventfd, Fanotify, FileOwner, Inotify, MessageQueue, Mqueue,
                 Netlink, Packet, Pidfd, Segment, Semaphores, Signalfd, Tcp, Timerfd, UnixSocket>;

struct Object {
    std::int64_t id = -1;
    ObjectKind kind = ObjectKind::file;
    std::string path;      // as /proc/PID/fd says, " (deleted)" cut off
    bool deleted = false;  // no name: contents are in `pages`
    FileIdentity identity;
    std::int32_t flags = 0;  // O_* of the description
    std::int64_t position = 0;
    std::int32_t owner = 0, owner_type = 0, owner_signal = 0;  // F_SETOWN_EX, F_SETSIG
    std::int32_t standard = -1;  // lowest of the descriptors 0, 1, 2 that a process has it at, -1: none
    bool outside = false;        // who holds the other end of this pipe or socket is no member of the group
    bool relied_on = false;      // file: mapped or executed, and its contents are not in an image
    std::int64_t backing = -1;  // file: id of the memory object that holds the contents (deleted file, memfd)

    std::int64_t pipe = -1;     // pipes and FIFOs: id of the pipe, shared by its ends
    std::int64_t capacity = 0;  // F_GETPIPE_SZ
    // Pipes and sockets: what is in them, a packet or a message each; else one.
    std::vector<Bytes> contents;

    std::int64_t pty = -1;        // ptys: id of the pair
    std::int32_t pty_index = -1;  // /dev/pts/N
    Bytes termios;                // struct termios2
    Bytes winsize;
    bool packet_mode = false, locked = false;
    Bytes input;  // read by nobody yet (slave: typed; master: printed)
    std::int32_t session = 0, foreground = 0;

    std::uint64_t size = 0;  // memory: bytes
    std::uint32_t seals = 0;
    std::string name;  // memfd's name
    std::int32_t memfd_flags = 0;
    std::vector<PageRun> pages;  // in the objects image; address = offset in the object

    What what;
    std::string type;  // kind memory

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

// "eventfd", "tcp": of what kind an object of ObjectKind::other is.
[[nodiscard]] inline std::string_view kind_of(const Object& object) {
    return std::visit(
        [&]<class T>(const T&) -> std::string_view {
            if constexpr (std::is_same_v<T, std::monostate>)
                return object.type;
            else
                return T::kind;
        },
        object.what);
}

struct Objects {  // root of the objects image
    std::string cid;
    std::int32_t np = 0;
    std::vector<Object> objects;
};

}  // namespace cairn::schema
