// The agent: the resident part of the hijack library that a capture runs inside a stopped process, to ask
// what only the process itself can ask and to fork the copy-on-write child.
//
// A capture writes a frame (the thread's own registers) and a command, points the stopped thread at
// Door::entry and lets it run. When all is done it stops the thread again and puts the registers back. Should
// the capture die at any moment, the kernel detaches it and the agent notices: it puts mask and registers
// back itself and the program goes on. The agent uses general registers only, makes raw system calls only,
// and none that overwrites the thread's restart block (a nanosleep or poll that was interrupted goes on
// exactly where it was).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/tracee.h"

namespace cairn {

inline constexpr std::uint64_t door_magic = 0x31726f6f444e5243ULL;  // "CRNDoor1"
inline constexpr std::uint32_t agent_version = 19;
// What a copy-on-write child is called.
inline constexpr const char* snapshot_name = "cairn-snapshot";
inline constexpr std::uint32_t max_posix_timers = 128;
inline constexpr std::uint32_t max_detached = 64;
inline constexpr std::uint32_t max_memory_nodes = 1024;
inline constexpr std::uint32_t max_notifications = 16;
inline constexpr std::uint32_t resident_pages = 8192;  // that agent_resident tells of at a time
inline constexpr std::uint32_t max_lent = 64;

// PR_SET_SYSCALL_USER_DISPATCH with these arguments; `on` 0: not at all.
struct AgentDispatch {
    std::uint64_t on, start, length, selector;
};

// Registers that the agent puts back itself if the capture dies. A call that was interrupted is already
// rewound.
struct AgentFrame {
    std::uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rsp, rip, eflags;
    std::uint64_t mask;  // signal mask
};

// A blocking transfer that the stop cut short: the hijack library makes the call for the rest and returns the
// sum, as if the call had never been interrupted. Lies below the red zone of the thread's stack, written by a
// capture; part of the image like any other memory.
struct FinishFrame {
    AgentFrame frame;  // mask is not used
    std::uint64_t call, arguments[6];
    std::uint64_t done;             // bytes transferred so far
    std::uint64_t message[7];       // struct msghdr for sendmsg and recvmsg
    std::uint64_t vectors[2 * 16];  // struct iovec for calls that take them
};

// Whether a thread finds out if Landlock restricts it, which takes a child: everybody but `never` does where
// the library has seen the program restrict itself (Door::restricts).
enum class AskLandlock : std::int32_t {
    never,
    if_seen,   // it can't have done so but by a right that it has no more
    if_blind,  // it may have: all threads where the library sees nothing (Door::placed)
    promised,  // to gain no privileges, as who restricts itself does: the leader as well
};

// Each thread's own answers.
struct AgentThread {
    AgentFrame frame;
    std::uint64_t talk;            // address of the Talk, in the process
    std::uint64_t header_capture;  // address of Region::capture, in the process
    std::uint64_t capture;         // the number it must have
    std::uint64_t door;
    std::int32_t leader;  // 1: goes on to take commands
    std::int32_t tracer;  // pid of the capture as this process sees it, 0: not visible
    std::uint32_t done;   // written by the thread when its answers are complete
    // 1: keyrings, PR_MCE_KILL, PR_GET_MDWE and arch_prctl are asked about; a seccomp filter might forbid it
    std::uint32_t ask_keys;
    std::uint64_t altstack_base, altstack_size;
    std::int32_t altstack_flags, death_signal;
    std::uint64_t clear_child_tid;
    std::uint64_t timerslack;
    std::int64_t cpu_ns;  // CLOCK_THREAD_CPUTIME_ID as the program sees it
    std::int32_t memory_policy;
    std::int32_t keys;  // in the thread's own keyring
    std::uint64_t memory_nodes[max_memory_nodes / 64];
    std::int32_t traced_by;  // the member that traces this thread and will take it back; 0: none
    std::int32_t
        no_variables;  // 1: the library's variables of this thread aren't found by the thread pointer
    std::int32_t securebits;
    std::int32_t memory_errors;  // PR_MCE_KILL_GET; -1: not asked
    std::int32_t tsc;            // PR_GET_TSC
    std::int32_t no_cpuid;       // 1: ARCH_GET_CPUID says that it faults
    // 1: the capture has suspended seccomp filters which forbid some of what the agent calls. When it dies
    // they are heeded again.
    std::int32_t filters_suspended;
    AskLandlock ask_landlock;    // of a sibling; the leader is told with agent_collect
    std::int32_t landlock_room;  // common/landlock_room.h
    AgentDispatch dispatch;      // what the thread is to have again if the capture dies
};

// Where the thread runs the agent that takes commands.
struct AgentRoom {
    AgentThread thread;
    alignas(16) std::uint8_t stack[3072];
};

// The same for another thread of the process, of which there may be thousands: it only answers, for which the
// agent has a frame of 320 bytes (more than 512 in a function the compiler refuses, hijack/CMakeLists.txt).
struct AgentSiblingRoom {
    AgentThread thread;
    alignas(16) std::uint8_t stack[896];
};

struct AgentTimer {
    std::int32_t id, overrun;
    std::int64_t left_ns, interval_ns;
};

// What the leader tells of the whole process.
struct AgentProcess {
    struct Action {
        std::uint64_t handler, flags, restorer, mask;
    } actions[64];
    struct Interval {
        std::int64_t interval_sec, interval_usec, left_sec, left_usec;
    } itimers[3];
    AgentTimer timers[max_posix_timers];  // ids are written by the capture
    std::uint32_t timer_count;
    std::int32_t subreaper, dumpable, keep_caps, securebits, thp_disable;
    std::int32_t lock_future;                    // mlockall(2): MCL_FUTURE, MCL_ONFAULT
    std::uint32_t membarrier;                    // registrations: MEMBARRIER_CMD_REGISTER_*
    std::int32_t keys;                           // in the process's own keyring
    std::int32_t session_keyring, session_keys;  // its serial number, 0: none that we can tell; keys in it
    std::int32_t deny_write_execute;             // PR_GET_MDWE; negative: not known
    std::int64_t cpu_ns;                         // CLOCK_PROCESS_CPUTIME_ID, without CpuBase; so are these
    std::int64_t children_user_us, children_system_us;
    std::uint64_t brk;
    std::uint32_t protection_keys;  // that are allocated, a bit each; 0: wasn't asked
    std::uint32_t pad;
    std::uint64_t state_permission;  // ARCH_GET_XCOMP_PERM; 0: the kernel has no such call, or wasn't asked
};

enum AgentCommand : std::uint32_t {
    agent_idle = 0,
    agent_collect = 1,    // fill AgentProcess; argument: AskLandlock of the leader
    agent_map = 2,        // map scratch memory of Door::argument bytes; result: address
    agent_unmap = 3,      // unmap Door::argument, Door::argument2 bytes
    agent_snapshot = 4,   // fork the copy-on-write child; argument 1: as a direct child
    agent_reap = 5,       // reap a direct child of an earlier checkpoint, pid in argument
    agent_step_back = 6,  // argument 1: no child subreaper for the moment; 0: as before
    agent_peek = 7,       // what wait() will tell of a child that has ended or stopped, pid in argument
    agent_resident = 8,   // fill Door::resident for the memory at Door::argument, Door::argument2 bytes of it
    agent_lend = 9,       // send the descriptors of the AgentLoan that lies in Door::resident, in one message
    agent_complete =
        10,  // let the io_uring of the descriptor in argument complete what is done (DEFER_TASKRUN)
    agent_let_go = 11,  // detach Door::tracees[argument], which comes to stand at its own Door::park
    agent_take = 12,    // attach the first `argument` of Door::tracees again, each in the stop that it was in
    agent_renew = 13,   // ask anew for the notification of the AgentRenewal that lies in Door::resident
    agent_watch = 14,   // make a userfaultfd, which a capture duplicates at once; result: its number
    agent_close = 15,   // close the descriptor in argument
};

// Which descriptors agent_lend sends, and where to: to a socket (AF_UNIX, SOCK_SEQPACKET) whose name the
// kernel has chosen, so that it is nobody else's. For a capture that may not take them (pidfd_getfd), as in
// most containers of Docker's.
struct AgentLoan {
    std::uint32_t count, address_length;
    std::uint8_t address[16];
    std::int32_t numbers[max_lent];
};

inline constexpr std::size_t notice_size = 32;  // NOTIFY_COOKIE_LEN of <linux/mqueue.h>

// A notification of a POSIX message queue by a thread (SIGEV_THREAD of mq_notify(3)). For the kernel it is a
// netlink socket and some bytes of libc's, which come out of the socket with each notification, and likewise
// when the process no longer wants one (remove_notification() in ipc/mqueue.c): no other way tells them.
struct AgentRenewal {
    std::int32_t queue;
    std::uint32_t count;
    std::int32_t sockets[max_lent];  // which it may be: nothing waits in any of them
    std::int32_t socket;             // written by the agent: which it is
    std::uint8_t notice[notice_size];
};

struct AgentSpan {
    std::uint64_t start, length;
};

// CPU time used before a restart, which the kernel doesn't know of: the library adds it
// (hijack/wrappers/clocks.cpp). Written by a restart; a child of fork begins with none.
struct CpuBase {
    std::int64_t process_ns;
    std::int64_t user_us, system_us, children_user_us, children_system_us;
};

// What mq_notify(3) was given: written by the hijack library, read by a capture.
struct AgentNotification {
    std::uint32_t used;
    std::int32_t queue, notify, signal;  // descriptor, SIGEV_*
    std::uint64_t value;
};

// In the hijack library's data. Written by the capture while the process is stopped.
struct Door {
    std::uint64_t magic;  // set last, when the library is ready
    std::uint32_t version;
    std::uint32_t size;  // sizeof(Door)
    std::uint64_t
        entry;  // address of the agent's code; rdi = AgentThread*, rsp: the end of the stack behind it
    std::uint64_t finish;  // address of the code that finishes interrupted calls (hijack/agent/finish)
    std::uint64_t code_begin, code_end;  // where the library's code lies: one mapping
    std::uint64_t argument, argument2;
    // What the copy-on-write child unmaps: attached System V segments, whose attachments the kernel counts.
    AgentSpan detach[max_detached];
    std::uint32_t detach_count;
    // 1: a checkpoint has placed the library here (capture/place_library.h); its constructor has not run, and
    // none of its functions is called by the program.
    std::uint32_t placed;
    AgentNotification notifications[max_notifications];
    CpuBase cpu;
    std::int64_t cpu_tls;           // offset from the thread pointer of the same for each thread, ns
    std::int64_t timing_tls;        // offset from the thread pointer of the TimingNote; 0: none
    std::uint32_t memory_policies;  // not 0: the program has set policies for parts of its memory (mbind(2))
    std::uint32_t cpu_level;        // CpuLevel (common/cpu_level.h) that the program was executed under
    std::int32_t
        rseq_tls;  // offset from the thread pointer of the area that libc registers for rseq(2); 0: none
    std::uint32_t linker_room;  // linker_room_here() when the program was executed
    std::uint64_t
        environment;     // address of libc's variable `environ`, as the program sees it (copy relocations)
    std::uint64_t park;  // address of code that sleeps: it needs no stack and keeps no register
    std::uint64_t take;  // address of what a restart has a tracer run: rdi = Door*, stack: AgentRoom::stack
    std::uint32_t tracee_count;
    std::uint32_t taken;  // 1: that is done
    std::uint32_t
        note_count;           // places of trace_notes that have been used; more than there are: some are lost
    std::uint32_t restricts;  // not 0: the program has called landlock_restrict_self(2) by syscall(2)
    TraceNote trace_notes[max_trace_notes];
    Tracee tracees[max_tracees];
    AgentRoom leader;
    AgentProcess process;
    alignas(16) std::uint8_t child_stack[2048];  // the middle child's
    alignas(8)
        std::uint8_t resident[resident_pages];  // as mincore(2) gives it; or an AgentLoan, or an AgentRenewal
};
static_assert(sizeof(AgentLoan) <= resident_pages && sizeof(AgentRenewal) <= resident_pages);

}  // namespace cairn
