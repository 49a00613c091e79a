// All kinds of kernel objects that are saved, a line each. A new kind has a room in resources/
// (docs/adding-a-resource.md), and here its schema's #include and its line.
#pragma once

#include "resources/bpf_map/schema.h"
#include "resources/btf/schema.h"
#include "resources/cpu_latency/schema.h"
#include "resources/datagram/schema.h"
#include "resources/epoll/schema.h"
#include "resources/eventfd/schema.h"
#include "resources/fanotify/schema.h"
#include "resources/file/schema.h"
#include "resources/inotify/schema.h"
#include "resources/io_uring/schema.h"
#include "resources/kmsg/schema.h"
#include "resources/memory/schema.h"
#include "resources/mptcp/schema.h"
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
#include "resources/tun/schema.h"
#include "resources/unix_socket/schema.h"
#include "resources/userfaultfd/schema.h"
#include "resources/vsock/schema.h"

// KIND(the struct of its schema, what the capture does for it, what the restart does for it): words in this
// order, each with a function of the room. That a function is named here declares it, with the parameters
// that resources/capture/table.h and resources/restore/opening.h give to the word. The capture says
//   NAMED("x")       a descriptor is of this kind if the kernel shows it as anon_inode:[x], anon_inode:x or
//   x:[...], IS(f)            or, where it has no single name for them, if f(looked) says so; DESCRIBE(f) f
//   fills the object from what is found of the descriptor; CONTENTS(f)      f does, for all objects of the
//   kind, what needs all objects of all kinds to be known; FINISH(f)        f does, for all of them, what
//   takes long, when the programs run again.
// The restart says
//   OPEN(struct, f)  f opens one object,
//   OPEN_ALL(f)      or f opens all of the kind. Neither: another line's does, or a process itself;
//   SET_UP(f)        f does for one object what has to wait until all processes are rebuilt;
//   WATCH(f)         f does for one object what comes last of all: what a restart does is no event for it.
//
// The restart goes through the lines from the first to the last, and the capture from the last to the first.
// So a line stands below those of the objects that its own may be made of (files of memory) or may have in
// them (sockets have whatever is on its way through them), and below one that is true of its own as well (a
// terminal is a file).
// clang-format off
#define CAIRN_KINDS(KIND)                                                                                              \
    /* What is mounted in one of the group's own may be opened there. */                                               \
    KIND(Namespace,    IS(is_namespace) DESCRIBE(describe_namespace) CONTENTS(capture_links)                           \
                       FINISH(note_who_else_is_there), OPEN_ALL(open_namespaces))                                      \
    KIND(Memory,       , OPEN_ALL(open_memories) SET_UP(seal_mapped_memory))                                           \
    KIND(File,         IS(is_file) DESCRIBE(describe_file) FINISH(finish_files), OPEN_ALL(open_files))                 \
    KIND(Pipe,         IS(is_pipe) DESCRIBE(describe_pipe) CONTENTS(capture_pipes), OPEN_ALL(open_pipes))              \
    KIND(Fifo,         , ) /* as a pipe */                                                                             \
    KIND(Epoll,        NAMED("eventpoll") DESCRIBE(describe_epoll) CONTENTS(capture_epolls), OPEN(Epoll, open_epoll))  \
    KIND(Eventfd,      NAMED("eventfd") DESCRIBE(describe_eventfd), OPEN(Eventfd, open_eventfd))                       \
    KIND(BpfMap,       NAMED("bpf-map") DESCRIBE(describe_bpf_map), OPEN(BpfMap, open_bpf_map))                        \
    KIND(Btf,          NAMED("btf") DESCRIBE(describe_btf), OPEN(Btf, open_btf))                                       \
    KIND(Signalfd,     NAMED("signalfd") DESCRIBE(describe_signalfd), OPEN(Signalfd, open_signalfd))                   \
    KIND(IoUring,      NAMED("io_uring") DESCRIBE(describe_io_uring) CONTENTS(capture_rings)                             \
                       FINISH(ask_for_buffer_groups), OPEN(IoUring, open_io_uring) SET_UP(register_files))                                                                   \
    KIND(Timerfd,      NAMED("timerfd") DESCRIBE(describe_timerfd) CONTENTS(capture_timerfds),                         \
                       OPEN(Timerfd, open_timerfd) SET_UP(arm_timerfd))                                                \
    /* Its memory is watched when it is all there: restart/rebuild/userfaultfds.h */                                   \
    KIND(Userfaultfd,  NAMED("userfaultfd") DESCRIBE(describe_userfaultfd) CONTENTS(capture_userfaultfds), )           \
    KIND(Pidfd,        NAMED("pidfd") DESCRIBE(describe_pidfd) CONTENTS(capture_pidfds), OPEN(Pidfd, open_dead_pidfd)) \
    KIND(Inotify,      NAMED("inotify") DESCRIBE(describe_inotify) CONTENTS(capture_watches) FINISH(finish_watches),   \
                       OPEN(Inotify, open_inotify) WATCH(watch_files))                                                 \
    /* What it watches is found with what an inotify does. */                                                          \
    KIND(Fanotify,     NAMED("fanotify") DESCRIBE(describe_fanotify), OPEN(Fanotify, open_fanotify) WATCH(mark_files)) \
    /* A queue shows itself as a file: describe_file() knows it. */                                                    \
    KIND(Mqueue,       DESCRIBE(describe_mqueue) CONTENTS(capture_mqueues), OPEN(Mqueue, open_mqueue))                 \
    KIND(Kmsg,         IS(is_kmsg) DESCRIBE(describe_kmsg), OPEN(Kmsg, open_kmsg))                                     \
    KIND(CpuLatency,   IS(is_cpu_latency) DESCRIBE(describe_cpu_latency) FINISH(finish_cpu_latencies),                 \
                       OPEN(CpuLatency, open_cpu_latency))                                                             \
    /* Sockets may be bound to its interface and its addresses. */                                                     \
    KIND(Tun,          IS(is_tun) DESCRIBE(describe_tun), OPEN(Tun, open_tun) SET_UP(keep_interface))                  \
    KIND(Netlink,      IS(is_netlink_socket) DESCRIBE(describe_netlink_socket), OPEN(Netlink, open_netlink_socket))    \
    KIND(Packet,       IS(is_packet_socket) DESCRIBE(describe_packet_socket), OPEN(Packet, open_packet_socket))        \
    KIND(Vsock,        IS(is_vsock) DESCRIBE(describe_vsock), OPEN(Vsock, open_vsock))                                 \
    /* No descriptors: resources/system_v/. */                                                                         \
    KIND(Semaphores,   , )                                                                                             \
    KIND(MessageQueue, , )                                                                                             \
    KIND(Terminal,     IS(is_terminal) DESCRIBE(describe_terminal) CONTENTS(capture_terminals),                        \
                       OPEN_ALL(open_terminals) SET_UP(set_up_outer_terminal))                                         \
    KIND(PtyMaster,    IS(is_pty_master) DESCRIBE(describe_pty_master), ) /* opened as a terminal */                   \
    KIND(PtySlave,     , )                                                                                             \
    KIND(Tcp,          IS(is_tcp_socket) DESCRIBE(describe_tcp_socket) CONTENTS(capture_tcp_sockets),                  \
                       OPEN_ALL(open_tcp_sockets))                                                                     \
    /* Connections of plain TCP that it has accepted are made by one that listens at its port for a moment. */         \
    KIND(Mptcp,        IS(is_mptcp_socket) DESCRIBE(describe_mptcp_socket), OPEN_ALL(open_mptcp_sockets))              \
    KIND(Datagram,     IS(is_datagram_socket) DESCRIBE(describe_datagram_socket), OPEN_ALL(open_datagram_sockets))     \
    KIND(UdpLite,      IS(is_udplite_socket) DESCRIBE(describe_udplite_socket), ) /* opened as a datagram socket */    \
    KIND(UnixSocket,   IS(is_unix_socket) DESCRIBE(describe_unix_socket) CONTENTS(capture_unix_sockets),               \
                       OPEN_ALL(open_unix_sockets))

// What can never be saved: REFUSED(the kernel's name for it, as NAMED, why). A kind that is in neither list is refused as well,
// as one that can't be saved yet.
#define CAIRN_REFUSED_KINDS(REFUSED)                                                                                   \
    REFUSED("perf_event",     "what it has counted can't be set again")                                                \
    REFUSED("bpf-prog",       "BPF objects belong to the system")                                                      \
    REFUSED("seccomp notify", "who is judged by it can't be connected to it again")
// clang-format on
