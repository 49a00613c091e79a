// The region: a file in the session directory that every process of the session maps shared. Members that
// have become another user have a region of that user's instead, which only the coordinator knows where to
// find.
//
// Registration is a store into a slot and a futex wake: it needs no descriptor, no path and no answer. The
// region is also the coordinator's journal. This header is used by the hijack library as well: no libstdc++
// symbols, no allocation, trivially copyable data only. All fields that two processes touch are lock-free
// atomics.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/ipc_map.h"

namespace cairn {

inline constexpr std::uint64_t region_magic = 0x316e6f6967524e43ULL;  // "CNRgion1"
inline constexpr std::uint32_t region_version = 11;
inline constexpr std::uint32_t slot_count = 16384;
inline constexpr std::uint32_t pid_hint_size = 32768;
inline constexpr std::uint32_t given_times = 8;
inline constexpr std::uint32_t id_map_size = 32768;  // entries of a hash table, a power of two

enum class SlotState : std::uint32_t {
    free = 0,
    birth = 1,    // claimed by a parent before fork, vfork or posix_spawn; the child has not registered yet
    running = 2,  // registered: the hijack library is mapped and has run
    exec = 3,     // an exec was asked for; becomes running when the new image registers or the exec fails
};

// One process. Claimed by compare-exchange free -> birth (a parent, for its child) or free -> running (a
// program that was launched or execed and finds no slot with its pid). Freed by the coordinator when the
// process has gone, by a parent whose fork failed.
struct alignas(64) Slot {
    std::atomic<SlotState> state;
    std::atomic<std::int32_t> pid;         // real pid in the coordinator's pid namespace; 0 in a free slot,
                                           // in a birth whose child isn't known its token (negative)
    std::atomic<std::int32_t> parent_pid;  // real pid of who claimed the slot (birth)
    std::atomic<std::uint32_t> image;      // raised by each exec: tells this image from the one before
    std::atomic<std::uint64_t> born_ns;    // CLOCK_BOOTTIME at registration; part of the uID, kept over exec
    std::atomic<std::uint64_t> region_at;  // where the process has mapped the region
    std::atomic<std::uint64_t> door;       // address of the hijack library's Door (common/agent.h)
    std::atomic<std::uint64_t> name;       // real pid << 32 | what the program believes its pid to be; 0: the
                                           // process has not been named yet
    std::atomic<std::uint32_t> flags;      // SlotFlag bits
    char foreign[76];                      // why this process can't be saved, if it can't ("" if it can)
};

enum SlotFlag : std::uint32_t {
    slot_restored = 1,   // came back by a restart
    slot_vfork = 2,      // birth by vfork or posix_spawn: shares its parent's memory until it execs
    slot_spawn = 4,      // with slot_vfork: birth by posix_spawn, which any child of its parent's may take
    slot_restricts = 8,  // the program, or one that it descends from, has called landlock_restrict_self(2)
};

// Relative timeouts: the kernel can't be asked when a sleeping call began. A wrapper of the hijack library
// notes it in thread-local storage; the capture reads it there when the thread sleeps in exactly this call.
struct TimingNote {
    std::int64_t began_ns;   // CLOCK_MONOTONIC at the call's begin; 0: no call under way
    std::int64_t length_ns;  // relative timeout asked for, ns
    std::int32_t call;       // number of the system call
    // Low half of an address of the stack frame in which a wrapper calls libc; 0: none. Left over when that
    // frame was left by longjmp(3): believed only of a thread whose stack goes on right below it.
    std::uint32_t call_frame;
};

// Virtual <-> real ids (pids, tids, process groups, sessions) of restored processes. Open addressing, linear
// probing, key 0 = free, value 0 = removed. Ids that are in no table are their own virtual ids.
struct IdEntry {
    std::atomic<std::int32_t> key;
    std::atomic<std::int32_t> value;
};
struct IdMap {
    std::atomic<std::uint32_t> used;  // 0: nothing is virtual, wrappers pass straight through
    IdEntry by_virtual[id_map_size];
    IdEntry by_real[id_map_size];
};

// What getsockname(2) and getpeername(2) say of TCP sockets that a restart had to give other addresses than
// their programs know. By SO_COOKIE: the kernel gives no two sockets the same one as long as it runs, so an
// entry never means another socket, and nobody has to take it out when its socket is closed. Addresses as
// sockaddr, length 0: as the kernel says. Open addressing, linear probing; cookie 0: free, 1: being filled.
inline constexpr std::uint32_t socket_name_count = 16384;  // a power of two
inline constexpr std::uint32_t socket_name_size = 28;      // sizeof(sockaddr_in6)
struct SocketName {
    std::atomic<std::uint64_t> cookie;
    std::uint8_t own_length, peer_length;
    std::uint8_t own[socket_name_size], peer[socket_name_size];
};
// Addresses of hosts, in network order: the one that programs know, and where that host's part runs now.
inline constexpr std::uint32_t moved_host_count = 256;
struct MovedHost {
    std::atomic<std::uint32_t> family;  // AF_INET, AF_INET6; 0: free
    std::uint8_t known[16], now[16];
};
struct SocketNames {
    std::atomic<std::uint32_t> used;   // 0: every socket has the names that the kernel says
    std::atomic<std::uint32_t> moved;  // 0: no host has moved
    MovedHost hosts[moved_host_count];
    SocketName names[socket_name_count];
};

// Where the capture and the agent that it runs in a process talk to each other: futex words in shared memory,
// for the process may have no descriptor to spare. The capture hands them out, one to each process that it
// has stopped.
struct alignas(64) Talk {
    std::atomic<std::uint32_t> command;  // AgentCommand, written by the capture
    std::atomic<std::uint32_t> reply;    // raised by the agent when a command is done
    std::atomic<std::int64_t> result;    // of the last command
    std::atomic<std::int32_t>
        snapshot;  // pid of the copy-on-write child once it has let go of all descriptors
};

struct Region {
    std::uint64_t magic;
    std::uint32_t version;
    std::atomic<std::uint32_t> slots_in_use_hint;  // where a search for a free slot may begin
    std::atomic<std::uint32_t>
        changes;  // futex: raised at every change of a slot; the coordinator waits on it
    std::atomic<std::uint32_t> overflow;  // raised by who found no free slot
    std::atomic<std::uint64_t> capture;   // number of the checkpoint being taken, 0: none. A snapshot child
                                          // that sees another number exits
    std::atomic<std::int32_t> coordinator_pid;
    std::atomic<std::int32_t> coordinator_generation;  // raised by every start of a coordinator
    std::atomic<std::uint64_t> pid_namespace;  // inode of the coordinator's /proc/self/ns/pid, 0: not known.
                                               // A program that runs in another one doesn't register: its
                                               // pids mean nothing here
    std::atomic<std::uint64_t> ipc_namespace;  // the same of /proc/self/ns/ipc: what `ipc` knows is there
    // Inodes of the time namespaces that restarts have put programs into, so that their clocks go on; 0: free
    std::atomic<std::uint64_t> time_namespaces[given_times];
    std::atomic<std::uint32_t> tokens;     // counts the births' tokens
    std::atomic<std::uint32_t> life;       // which of a computation's lives runs here: 0 the first, after a
                                           // restart life_of(generation)
    std::atomic<std::uint32_t> slots_end;  // no slot at or above this index was ever claimed
    std::atomic<std::uint32_t>
        pid_collisions;  // how often slot_by_pid had to name one of two processes alive
    std::atomic<std::uint32_t>
        spawn_births;                       // slots claimed for posix_spawn and not taken yet; never too low
    std::atomic<std::uint32_t> slot_limit;  // so many of the slots may be used, 0: all. Fewer only in tests
    std::atomic<std::uint16_t>
        slot_by_pid[pid_hint_size];  // index pid % pid_hint_size: the slot to look at first
    char session[64];
    char ckptdir[1024];
    char path[1024];  // of this file: what CAIRN_REGION is in the environment of whatever a member execs. A
                      // restored program's own environment still names the session that it was started in
    // Where a member that execs as another user asks for this file, which it may not open by its path: an
    // abstract Unix socket of the coordinator's (coordinator/gate.h). "" if there is none.
    char gate[64];
    std::uint32_t owner;  // effective uid of the coordinator
    // Whose processes use this region: the owner's, or another user's whom members have become. Only they can
    // write into it (docs/decisions/0006-other-users.md).
    std::uint32_t user;
    alignas(64) Slot slots[slot_count];
    alignas(64) Talk talks[slot_count];
    alignas(64) IdMap ids;
    alignas(64) IpcMap ipc;
    alignas(64) SocketNames sockets;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<SlotState>::is_always_lock_free);
static_assert(sizeof(Slot) == 128);

// Environment of a launched program. Kept in every exec inside the group by the hijack library.
inline constexpr const char* env_region = "CAIRN_REGION";  // path of the region file
// OWNER:NAME of the gate, for what is executed by another user than the session's.
inline constexpr const char* env_gate = "CAIRN_GATE";
inline constexpr const char* env_library =
    "CAIRN_LIBRARY";  // path of libcairn.so, what LD_PRELOAD begins with

}  // namespace cairn
