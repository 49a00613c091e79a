// Kernel objects that more than one process may hold: open file descriptions, files, pipes, terminals, shared
// memory. Saved once for each part of a computation, in its objects image.
#pragma once

#include "common/schema/process.h"

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
    other,   // restored by a capture/restore pair of its own: `type` names it, `extra` is its schema
};

struct FileIdentity {  // what a restart compares before it trusts a file's contents
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t tail_hash = 0;  // XXH3-64 of the last 64 KiB
    std::uint32_t mode = 0;
    std::uint64_t rdev = 0;
};

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

    std::int64_t pipe = -1;       // pipes and FIFOs: id of the pipe, shared by its ends
    std::int64_t capacity = 0;    // F_GETPIPE_SZ
    std::vector<Bytes> contents;  // pipe: what is in it, a packet each for O_DIRECT pipes, else one

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

    std::string type;  // ObjectKind::other
    Bytes extra;       // MessagePack
};

struct Objects {  // root of the objects image
    std::string cid;
    std::int32_t np = 0;
    std::vector<Object> objects;
};

}  // namespace cairn::schema
