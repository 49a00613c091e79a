#include "witness/rules.h"

#include <array>

namespace cairn::witness {
namespace {

constexpr std::array at_rest{
    // Measurements
    Rule{".*/status/(Vm(Peak|HWM|RSS|PTE|Swap)|Rss(Anon|File|Shmem)|HugetlbPages|.*ctxt_switches)",
         "measurements of what was touched, and how often it slept"},
    Rule{".*/stat/(c?minflt|c?majflt|c?[us]time|rss|delayacct_blkio_ticks|c?guest_time|processor)",
         "measurements of what was done, and where"},
    Rule{".*/sched/.*", "the scheduler's own measurements"},
    Rule{".*/stat/starttime", "the kernel says when the process was made, and takes it from nobody"},
    Rule{".*/status/FDSize",
         "how much room the table of descriptors has: it grows when it is used, and never shrinks"},
    Rule{"[0-9]+/map/[^/]*/pages/.*",
         "which pages are there is the kernel's choice; that pages which processes share since a fork come "
         "back as copies is known, and to be built"},
    Rule{".*/status/SigQ", "how many signals wait for all processes of the user"},
    Rule{"[0-9]+/fd/[0-9]+/[a-z]+ socket/socket/55", "SO_MEMINFO: measurements"},
    Rule{"[0-9]+/fd/[0-9]+/tcp socket/tcp/12",
         "TCP_QUICKACK: how the conversation goes just now (tcp(7): the flag is not permanent)"},
    Rule{"[0-9]+/fd/[0-9]+/tcp socket/ipv6/1[78]",
         "IPV6_MULTICAST_IF and IPV6_MULTICAST_HOPS of a connection that was accepted: noted from its first "
         "packet "
         "(tcp_v6_syn_recv_sock()), without meaning for TCP, and for a stream no call sets them"},
    Rule{"[0-9]+/arch_status", "since when it has used AVX-512, in milliseconds"},
    Rule{"[0-9]+/fd/[0-9]+/[a-z]+ socket/socket/56",
         "SO_INCOMING_NAPI_ID: which queue of which device has served it last"},
    Rule{"[0-9]+/fd/[0-9]+/[a-z]+ socket/socket/49", "SO_INCOMING_CPU: which processor has served it last"},
    Rule{"[0-9]+/fd/[0-9]+/[a-z]+ socket/tcp/(11|26)",
         "TCP_INFO and TCP_CC_INFO: measurements of the connection, which a restart makes anew"},

    // What time does
    Rule{"[0-9]+/fd/[0-9]+/fdinfo/(ticks|it_value)", "a timer that runs has gone on"},
    Rule{"[0-9]+/calls/getitimer [0-2]",
         "what is left of a timer has gone on; the interval in front of it is compared", "[0-9a-f]{32}$",
         How::in_parts},
    Rule{".*/(stat/state|status/State)",
         "whether a thread runs or sleeps just now; stopped ones and zombies are compared",
         "[RSDI]( \\(.*\\))?"},
    Rule{".*/task/[0-9]+/(syscall|wchan)|.*/stat/wchan",
         "where a thread that is interrupted in a call stands in the kernel"},
    Rule{"[0-9]+/task/[0-9]+/registers/(r[a-z0-9]+|orig_rax|eflags|xstate)",
         "a program that waits in a loop stands at another place of it each time, and a call that was "
         "interrupted "
         "begins again; all registers are compared by resource.registers"},
    Rule{"[0-9]+/task/[0-9]+/signals/pending of the thread/.*",
         "a SIGTRAP that waits is sent once more by the restart, which it names as its sender", "05000000.*"},

    // The machine's
    Rule{"[0-9]+/mountinfo/.*",
         "what is mounted is everybody's; which mount namespace it is (ns/mnt) is compared, and what is in "
         "one "
         "of its own by resource.own_mounts"},
    Rule{"[0-9]+/fd/[0-9]+/poll of netlink",
         "who has joined a group of netlink(7) is told what others do to the machine meanwhile"},

    // The kernel's own
    Rule{".*/stat/flags",
         "PF_*: whether the process has executed anything since it was forked (0x40), or has used a "
         "privilege (0x100)"},
    Rule{"[0-9]+/fd/[0-9]+/fstat/owner of one who has gone",
         "whose such a file is: root's, if anybody on the machine looked for it when the process had ended "
         "and "
         "nobody had waited for it yet (pid_update_inode() in fs/proc/base.c)"},
    Rule{"[0-9]+/autogroup", "the scheduler's group of the session, whose number is counted on (sched(7))"},
    Rule{"[0-9]+/map/[^/]*/VmFlags",
         "whether the kernel counts it among what it has promised: read-only memory that was writable once "
         "is still counted; and whether it was written "
         "since somebody asked (soft-dirty); and that there may be guard pages, which it says of all that "
         "was one mapping once (they are compared)",
         " ac\\b| sd\\b| gu\\b", How::in_parts},

    // What could be asked before and not after, or the other way round, because a thread stood where it can't
    // be stopped
    Rule{"[0-9]+/(task/[0-9]+/)?(calls|registers|signals|seccomp filter|rseq|syscall user dispatch)(/.*)?",
         "asked of threads that can be stopped without their noticing it", nullptr, How::if_seen},

    // Numbers that the kernel gives
    Rule{"[0-9]+/fd/[0-9]+/(leads to|fstat/inode|fdinfo/ino)|[0-9]+/map/[^/]*/file",
         "inodes of pipes, sockets (rings of which are mapped) and what else has no name are given by the "
         "kernel in their order",
         "(?:pipe:\\[|socket:\\[|)([0-9]+)\\]?", How::renamed},
    Rule{".*/task/[0-9]+/status/NSpid",
         "what a thread is called in pid namespaces between the innermost and the outermost one nobody can "
         "choose "
         "(docs/what-is-saved.md); of a process it is compared",
         "\\t[0-9]+(?=\\t)", How::in_parts},
    Rule{"[0-9]+/(fd/[0-9]+|(task/[0-9]+/)?(cwd|root))/leads to one who has gone",
         "a file of proc(5) whose process has gone comes back as that of another that has gone, which "
         "answers all the same",
         "^/proc/[0-9]+", How::in_parts},
    Rule{"[0-9]+/fd/[0-9]+/(fstat/device|fdinfo/mnt_id) of one who has gone",
         "and of another proc, where the first one's was mounted by the programs themselves"},
    Rule{".*/(ns/(cgroup|ipc|mnt|net|pid|pid_for_children|time|time_for_children|user|uts)|fd/[0-9]+/leads "
         "to)",
         "so are those of namespaces that processes have made for themselves",
         "(?:cgroup|ipc|mnt|net|pid|time|user|uts):\\[([0-9]+)\\]", How::renamed},
    Rule{
        ".*/ns/time of children alone",
        "so is that of the time namespace that a process has chosen for its children and isn't in itself; no "
        "call brings it to one that they have (setns(2) would take it along), so what it makes anew is "
        "another one, with the same clocks (docs/what-is-saved.md)",
        "time:\\[([0-9]+)\\]", How::renamed},
    Rule{"[0-9]+/fd/[0-9]+/fstat/device", "file systems without a device are numbered by the kernel",
         "([0-9a-f]{1,3}) 0", How::renamed},
    Rule{"[0-9]+/map/[^/]*/file", "the same, of what is mapped, and its inode", "(00:[0-9a-f]+ [0-9]+) /.*",
         How::renamed},
    Rule{"[0-9]+/fd/[0-9]+/fdinfo/mnt_id", "mounts are counted", "([0-9]+)", How::renamed},
    Rule{"[0-9]+/fd/[0-9]+/[a-z]+ socket/socket/57", "SO_COOKIE: sockets are counted", "([0-9a-f]{16})",
         How::renamed},
    Rule{"[0-9]+/fd/[0-9]+/fdinfo/eventfd-id", "eventfds are counted", "([0-9]+)", How::renamed},
    Rule{"[0-9]+/fd/[0-9]+/leads to", "the terminal is the one that the programs were restarted on",
         "/dev/pts/([0-9]+)", How::renamed},
    Rule{"[0-9]+/fd/[0-9]+/(fstat|tty)/device|.*/stat/tty_nr", "the same, as numbers", "(?:1a |)([0-9a-f]+)",
         How::renamed},
    Rule{"[0-9]+/fd/[0-9]+/fdinfo/(map|btf|btf_obj)_id", "objects of bpf(2) are counted", "([0-9]+)",
         How::renamed},
    Rule{"[0-9]+/fd/[0-9]+/fdinfo/(tfd|inotify wd) .*", "the inode of what is watched, where it has no name",
         "(?:ino:|f_handle:)[0-9a-f]+", How::in_parts},
    Rule{"[0-9]+/map/[^/]*/file", "so are inodes of what is in no folder", "00:01 ([0-9]+) .*", How::renamed},
    Rule{"[0-9]+/map/[^/]*/file", "and of rings of io_uring", "00:[0-9a-f]+ ([0-9]+) anon_inode:.*",
         How::renamed},
    Rule{"[0-9]+/fd/[0-9]+/fdinfo/ *[0-9]+", "files that are registered with an io_uring: the same numbers",
         "(?:pipe:\\[|socket:\\[)([0-9]+)\\]", How::renamed},
    Rule{"[0-9]+/map/[0-9a-f]+ io_uring/page/.*",
         "places of a ring in which nothing stands hold what was there last, and a restart's NOPs were; what "
         "stands in "
         "them is compared by resource.io_uring"},
    Rule{".*/status/VmPin",
         "registered buffers of an io_uring are counted for who has set the ring up: the restart"},
    Rule{
        "[0-9]+/fd/[0-9]+/fcntl/flags of the opening",
        "O_LARGEFILE and O_NOFOLLOW say how open(2) went, and O_CLOEXEC how mq_open(3) did, and nothing of "
        "what is open now (whether a descriptor is closed on exec is in fdinfo); a file that is opened again "
        "by /proc can't be opened by the second"},

    // How it has come back
    Rule{".*/(stat/ppid|status/PPid)",
         "who has started the computation is the restart tool now, for all who had that parent and for "
         "nobody else",
         "([0-9]+)", How::renamed},
    Rule{".*/stat/exit_code",
         "proc(5) shows 0 to whoever may not look at the process: an ordinary user, of a zombie that had "
         "forbidden it (PR_SET_DUMPABLE), since Linux 6.18; after a restart he may. What wait(2) gives is "
         "compared by "
         "resource.children",
         "0|11"},
    Rule{"[0-9]+/task/[0-9]+/calls/prctl PDEATHSIG",
         "who kills the restart tool means the programs: those that it has started die of it "
         "(docs/decisions/0014)",
         "00000000|09000000"},
    Rule{"[0-9]+/map/[0-9a-f]+ (shared|removed)/file",
         "shared memory without a file is called /dev/zero by the kernel; only what has a descriptor can be "
         "mapped by several, which a memfd is for. A removed file has had another name when it was removed "
         "again, "
         "and one that has another name beside the removed one is found by that",
         ".* (.*\\(deleted\\)|/dev/shm/sem\\..*)"},
    Rule{"[0-9]+/fd/[0-9]+/leads to", "a removed file has had another name when it was removed again",
         ".* \\(deleted\\)"},
    Rule{"[0-9]+/map/[0-9a-f]+ droppable/page/.*",
         "the kernel may drop it at any time (MAP_DROPPABLE), and a checkpoint does"},
    Rule{"[0-9]+/timers/[0-9]+", "a timer whose thread has ended notifies nobody",
         "notify: (signal/tid\\.[0-9]+|none/pid\\.[0-9]+)"},
    Rule{"[0-9]+/fd/[0-9]+/mptcp socket/socket/7", "SO_SNDBUF where the kernel sizes it"},
    Rule{"[0-9]+/fd/[0-9]+/[a-z]+ socket/socket/17 of a listening one",
         "SO_PEERCRED: nobody is at the other end, and it says who has called listen(2)"},
    Rule{"[0-9]+/fd/[0-9]+/other socket/socket/17",
         "SO_PEERCRED of a caller whom nobody has accepted names who has called listen(2), which was the "
         "restart "
         "tool; users and groups are compared here, pids of those who were accepted by resource.unix_sockets",
         "^[0-9a-f]{8}", How::in_parts},
    Rule{"[0-9]+/fd/[0-9]+/other socket/ioctl/SIOCOUTQ",
         "of a Unix socket it counts the kernel's memory for what waits"},
    Rule{"[0-9]+/fd/[0-9]+/tcp socket/(ioctl/.*|waiting/.*)",
         "what was sent and not read yet is at this end or on its way from the other; that nothing is lost "
         "or doubled is compared by resource.tcp_sockets"},
    Rule{"[0-9]+/fd/[0-9]+/(mp)?tcp socket/tcp/(2|10)",
         "TCP_MAXSEG and TCP_WINDOW_CLAMP: what the ends have agreed on so far; what a program has set is "
         "compared by resource.tcp_sockets"},
    Rule{"[0-9]+/fd/[0-9]+/tcp socket/ip/33",
         "IP_MULTICAST_TTL of a connection: the kernel has copied it from the segment that made it"},
    Rule{"[0-9]+/fd/[0-9]+/tcp socket/ip/52",
         "IP_PROTOCOL, which says a TCP socket's port while it is bound: one that is over is bound again, to "
         "keep its name"},
    Rule{"[0-9]+/fd/[0-9]+/[a-z]+ socket/ipv6/26",
         "IPV6_V6ONLY: bind(2) to an address sets it for good, where connect(2) had chosen the same address "
         "(net/ipv6/af_inet6.c)",
         "00000000|01000000"},
    Rule{"[0-9]+/fd/[0-9]+/(mp)?tcp socket/socket/18", "SO_RCVLOWAT: 0 means 1 (socket(7)), and can't be set",
         "00000000|01000000"},
    Rule{"[0-9]+/fd/[0-9]+/mptcp socket/socket/28",
         "SO_PEERNAME fails in one way or the other where there is no peer"},
    Rule{"[0-9]+/fd/[0-9]+/vsock socket/ioctl/.*",
         "answered as soon as the socket has a transport, which it has kept from a connect that has failed"},
    Rule{"[0-9]+/task/[0-9]+/shares/sysvsem",
         "all who have no list of semaphores to undo have the same one; threads that the restart makes have "
         "one of their process's"},
    Rule{"[0-9]+/task/[0-9]+/shares/io",
         "all who have no context of I/O have the same one, and who has read or written has one of its own "
         "(CLONE_IO, which nobody uses, would share it)"},
    Rule{"[0-9]+/fd/[0-9]+/fdinfo/lock .*",
         "a lock of flock(2) is of whoever has asked for it, which was the restart tool; who holds it is the "
         "descriptor",
         "(?:\t| )*[0-9]+: FLOCK .* ([0-9]+) [0-9a-f:]+ .*", How::renamed},

    // cairn's own
    Rule{"[0-9]+/map/[0-9a-f]+ (region|memfd:cairn-region \\(deleted\\))/.*",
         "cairn's own memory in the process: the session's region"},
};

constexpr std::array living{
    Rule{"[0-9]+/map/[^/]*/(page/.*|content)", "what it computes"},
    Rule{"[0-9]+/map/[^/]* (anonymous|\\[heap\\])/.*", "what memory it has taken and given back", nullptr,
         How::if_seen},
    Rule{"[0-9]+/map/[^/]* (anonymous|\\[heap\\])/end|.*/stat/vsize|.*/status/Vm(Size|Data)", "the same"},
    Rule{"[0-9]+/task/[0-9]+/registers/.*|[0-9]+/stack pointer/.*", "where it is"},
    Rule{"[0-9]+/fd/[0-9]+/(fdinfo/pos|in the pipe|poll|ioctl/.*)|[0-9]+/fd/[0-9]+/[a-z]+ "
         "socket/(waiting|ioctl)/.*",
         "what it has read and written"},
    Rule{"[0-9]+/fd/[0-9]+/fstat/size", "what it has written"},
    Rule{"[0-9]+/fd/[0-9]+/fdinfo/(eventfd-count|tfd.*events.*)", "what has been signalled"},
    Rule{".*/status/(Sig|Shd)Pnd|.*/signals/pending of the (thread|process)/.*", "the same"},
};

}  // namespace

std::span<const Rule> rules() {
    return at_rest;
}

std::span<const Rule> rules_of_living() {
    return living;
}

}  // namespace cairn::witness
