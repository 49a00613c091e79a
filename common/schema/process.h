// What an image says of one process. Filled by capture/, read by restart/ and `cairn inspect`; neither knows
// the other. Every struct converts to and from nlohmann::json (schema/json.h); on disk it is MessagePack.
//
// Ids in here are the ids that the program knows, but for one (Thread::kernel_tid).
// Addresses are addresses in the image. Times are ns unless the name says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids_text.h"
#include "common/program_address_text.h"
#include "common/program_fd_text.h"
#include "common/schema/clock_lead.h"
#include "common/schema/field.h"
#include "common/schema/lock.h"
#include "common/schema/semaphore.h"

namespace cairn::schema {

enum class Run { running, stopped, zombie };

// A pid namespace that children are to be born into and that has no process: either nobody was born there
// yet, or its first process has ended, after which nobody can be.
enum class EmptyPids { unborn, ended };

struct SeccompFilter {
    Bytes code;        // struct sock_filter each, 8 bytes
    bool log = false;  // SECCOMP_FILTER_FLAG_LOG
};

// In which stop its tracer sees a thread (common/tracee.h).
enum class TracedStop { running, in_call, interrupted, signal, call_entry, call_exit };

// A thread that another process of the computation traces (ptrace(2)).
struct Tracing {
    ProgramId tracer;  // the process, and its thread that does
    ProgramId tracer_thread;
    bool seized = false;        // PTRACE_SEIZE; else PTRACE_ATTACH or PTRACE_TRACEME
    std::uint32_t options = 0;  // PTRACE_O_*
    std::uint32_t resume = 0;   // how it was let run last: PTRACE_CONT, PTRACE_SYSCALL, ...; 0: not known
    TracedStop stop = TracedStop::running;
    bool told = false;                           // the tracer has waited for the stop
    Bytes info;                                  // siginfo_t of the stop
    std::vector<std::uint64_t> debug_registers;  // 8 of them
};

// What is the same for all threads of a process unless one makes raw system calls: libc asks every thread.
struct OwnIds {
    std::uint32_t uids[4] = {}, gids[4] = {};  // real, effective, saved, fs
    std::vector<std::uint32_t> groups;
    std::uint64_t cap_bounding = 0;
    std::uint32_t securebits = 0;
    bool keep_caps = false;
};

struct CallDispatch {  // PR_SET_SYSCALL_USER_DISPATCH, with PR_SYS_DISPATCH_ON
    ProgramAddress selector, start;
    std::uint64_t length = 0;
};

struct OwnFolders {                    // after unshare(CLONE_FS) in the thread
    std::int64_t cwd = -1, root = -1;  // Object ids; root -1: same as the coordinator's
    std::uint32_t umask = 0;
};

// In one pid namespace, in which the first process is 1 and whoever is outside 0.
struct NamespaceIds {
    std::int32_t pid = 0, pgid = 0, sid = 0;
};

// A process in a pid namespace of the group's own: what it is called in there.
struct OwnPids {
    std::uint64_t space = 0;  // which: Process::pid of the first process there
    std::int64_t owner =
        -1;  // Object id of the user namespace that it belongs to, -1: none of the group's own
    std::int32_t pid = 0, pgid = 0, sid = 0;
    std::optional<std::vector<NamespaceIds>>
        around;  // in those of the group's own that it is below, the innermost first
};

struct OwnMounts {  // of a process in a mount namespace of the group's own: paths in there
    std::string cwd, root;
};

struct Thread {
    ProgramId tid;
    KernelId kernel_tid;  // at the checkpoint: what the words of robust mutexes held by it say
    std::optional<std::int32_t> own_tid;  // of a process with OwnPids: what it calls itself
    bool leader_dead = false;  // the main thread has exited, others live: nothing but tid is meaningful
    Bytes registers;           // struct user_regs_struct (NT_PRSTATUS), orig_rax included
    Bytes xstate;              // NT_X86_XSTATE, the XSAVE area
    // Bytes of the whole area, where zeros at its end are left out; none: they aren't.
    std::optional<std::uint32_t> xstate_size;
    std::uint64_t blocked = 0;   // signal mask, bit n-1 for signal n
    std::vector<Bytes> pending;  // siginfo_t, signals sent to this thread, oldest first
    ProgramAddress altstack_base;
    std::uint64_t altstack_size = 0;
    std::int32_t altstack_flags = 2;  // SS_DISABLE
    ProgramAddress clear_child_tid;
    ProgramAddress robust_list;
    std::uint64_t robust_list_size = 0;
    ProgramAddress rseq;
    std::uint32_t rseq_size = 0, rseq_signature = 0, rseq_flags = 0;
    std::string name;
    std::int32_t policy = 0, priority = 0, nice = 0, ioprio = 0;
    std::uint64_t sched_runtime = 0, sched_deadline = 0, sched_period = 0;
    std::optional<std::uint64_t> slice;  // ns, of SCHED_OTHER and SCHED_BATCH; none: what all have
    std::optional<std::uint64_t>
        sched_flags;  // SCHED_FLAG_RESET_ON_FORK, ...; images before it was saved: none
    Bytes affinity;   // cpu_set_t as the kernel gives it
    std::uint64_t timerslack = 0;
    std::int32_t death_signal = 0;
    std::optional<std::int32_t> memory_errors;  // PR_MCE_KILL_GET; none: not asked, or the default
    std::optional<bool> no_time_stamps;         // PR_TSC_SIGSEGV; none: it may read the counter
    std::optional<bool> no_cpuid;               // ARCH_SET_CPUID of arch_prctl(2); none: it may ask
    // What it has asked to be protected from (PR_SET_SPECULATION_CTRL): PR_SPEC_*; none: nothing
    std::optional<std::int32_t> store_bypass, indirect_branch;
    std::optional<CallDispatch> dispatch;  // of system calls to the thread itself; none: they are made
    // The call that the thread sleeps in, where its relative timeout must be shortened: see TimingNote.
    std::int64_t timeout_left = -1;  // ns; -1: none known
    std::uint64_t cap_effective = 0, cap_permitted = 0, cap_inheritable = 0, cap_ambient = 0;
    std::int64_t cpu_ns = 0;         // CLOCK_THREAD_CPUTIME_ID, as the program sees it
    std::int32_t memory_policy = 0;  // set_mempolicy(2): mode with its flags; 0: MPOL_DEFAULT
    Bytes memory_nodes;              // its nodes, a bit each, in words of 8 bytes
    bool no_new_privs = false;
    std::vector<std::int32_t> filters;   // indexes of Process::filters, the oldest first
    std::optional<bool> seccomp_strict;  // SECCOMP_MODE_STRICT; none: it isn't
    // Layers of Landlock's rules that it has more than the coordinator, whose rules nobody can tell; none:
    // none.
    std::optional<std::int32_t> landlock_layers;
    std::optional<Tracing> tracing;  // none: nobody of the computation traces it
    std::optional<OwnIds> own_ids;   // none: the process's
    std::optional<OwnFolders> own_folders;
};

struct SignalAction {        // as rt_sigaction(2) gives it
    ProgramAddress handler;  // or SIG_DFL, SIG_IGN
    std::uint64_t flags = 0;
    ProgramAddress restorer;
    std::uint64_t mask = 0;
};

enum class AreaKind {
    anonymous,      // private anonymous memory, heap and stacks included
    file_private,   // private mapping of a file; pages that differ from the file are in the image
    file_shared,    // shared mapping of a file that has a name
    shared_memory,  // shared anonymous memory, memfd, deleted or SysV segment: contents are in an Object
    vdso,           // the kernel's special mappings. The vdso is stored for a restart on another kernel
    vvar,           // all others, whose pages are the running kernel's: never stored
    region,         // the session's region: mapped again
};

// A run of pages in the image file, and where they belong.
template <class Place>
struct RunOf {
    Place at{};                // page-aligned
    std::uint64_t length = 0;  // bytes, page-aligned
    std::uint64_t offset = 0;  // in the image file, page-aligned
    std::uint64_t hash = 0;    // XXH3-64 of the length bytes; a run is at most 1 MiB long
};
using PageRun = RunOf<ProgramAddress>;
using ObjectRun = RunOf<std::uint64_t>;  // of an object that has contents: the offset in it

// Pages that a process has in common with another one since a fork, or with itself as an earlier generation
// of the checkpoint has stored it: that image has them.
struct Borrowed {
    ProgramId from;                   // whose pages; they are in pFROM.image of the same folder
    std::optional<std::string> file;  // or in this one there, an image of an earlier generation
    std::vector<PageRun> pages;       // at the same addresses as there
};

// Private memory of hugetlb pages.
struct HugePages {
    std::uint32_t size_log2 = 21;
    std::vector<std::pair<ProgramAddress, std::uint64_t>>
        present;  // address, length: those that are there, be they of zeros: the pool may have no others
};

struct Area {
    ProgramAddress start, end;
    std::int32_t prot = 0;  // PROT_*
    AreaKind kind = AreaKind::anonymous;
    bool grows_down = false, no_reserve = false, locked = false, lock_on_fault = false, dont_fork = false,
         wipe_on_fork = false, dont_dump = false, huge = false, no_huge = false, mergeable = false,
         droppable = false;  // MAP_DROPPABLE: no runs
    // Shared memory that mprotect(2) can't make writable, because the file was opened for reading (or by
    // SHM_RDONLY); images before it was saved: none.
    std::optional<bool> never_writable;
    std::optional<bool> random, sequential;       // MADV_RANDOM, MADV_SEQUENTIAL; images before: none
    std::optional<bool> sealed;                   // mseal(2); none: it isn't
    std::optional<std::uint32_t> protection_key;  // pkey_mprotect(2); none: 0
    std::int32_t memory_policy = 0;               // mbind(2), as Thread::memory_policy
    Bytes memory_nodes;
    std::uint64_t file_offset = 0;
    std::int64_t object = -1;  // schema::Object id: the file or the memory object
    std::string name;          // as in /proc/PID/maps, "" for none
    std::vector<PageRun> pages;
    std::optional<std::vector<Borrowed>> borrowed;  // beside `pages`; none: nothing
    std::vector<std::pair<ProgramAddress, std::uint64_t>>
        guards;  // address, length of guard regions (MADV_GUARD_INSTALL)
    std::optional<HugePages> huge_pages;
};

struct Descriptor {
    ProgramFd fd;
    std::int64_t object = -1;  // schema::Object id: the open file description
    bool close_on_exec = false;
};

struct PosixTimer {
    std::int32_t id = 0, clock = 0, notify = 0, signal = 0;
    ProgramId tid;                        // SIGEV_THREAD_ID
    std::uint64_t value = 0;              // sigev_value
    std::int64_t left = 0, interval = 0;  // ns; left 0: disarmed
    std::int32_t overrun = 0;
};
struct IntervalTimer {  // setitimer(2), microseconds
    std::int64_t left_us = 0, interval_us = 0;
};
struct Limit {
    std::uint64_t soft = 0, hard = 0;
};

struct MemoryLayout {  // struct prctl_mm_map
    ProgramAddress start_code, end_code, start_data, end_data, start_brk, brk, start_stack, arg_start,
        arg_end, env_start, env_end;
    Bytes auxv;
};

struct Process {
    std::string uid;  // unique on all hosts and for ever: host hash - pid - time stamp
    std::string cid;
    std::int32_t np = 0;
    ProgramId pid, ppid, pgid, sid;
    // The process that leads its session (its group) is no process of the computation, and it lived.
    bool session_led_outside = false, group_led_outside = false;
    bool subreaper = false;
    Run run = Run::running;
    std::int32_t stop_signal = 0;   // Run::stopped: what wait() would say
    bool stop_reported = false;     // the parent has already waited for the stop
    std::int32_t exit_status = 0;   // Run::zombie: wait status
    std::int32_t exit_signal = 17;  // what the parent gets when it dies (clone's low byte)
    std::string name;               // comm of the main thread
    std::int64_t terminal = -1;     // Object id of the controlling terminal, -1: none
    ProgramId foreground;           // foreground process group of that terminal

    std::int64_t executable = -1;      // Object id
    std::int64_t cwd = -1, root = -1;  // Object ids; root -1: same as the coordinator's
    std::optional<std::vector<std::int64_t>>
        namespaces;  // Object ids: those of the group's own that it is in, in the order of entering
    std::optional<OwnMounts> mounts;  // `cwd` and `root` are -1 then
    std::optional<OwnPids> own_pids;  // none: it is in the pid namespace that the group was launched in
    std::optional<ProgramId> children_pids;  // first process of the pid namespace that its children are born
                                             // into; none: its own
    std::optional<EmptyPids> empty_pids;     // the same, and there is no process in it
    // Its children are born into another time namespace than it is in itself (unshare(2)).
    std::optional<ClockLead> clocks_of_children;
    std::uint32_t umask = 0;
    // Real, effective, saved, fs: as who takes the checkpoint sees them, in whatever user namespace it is.
    std::uint32_t uids[4] = {}, gids[4] = {};
    std::vector<std::uint32_t> groups;
    std::uint64_t cap_bounding = 0;
    std::uint32_t securebits = 0;
    bool no_new_privs = false;  // of every thread
    bool keep_caps = false;
    std::int32_t dumpable = 1;
    std::int32_t oom_score_adj = 0;
    std::optional<std::uint32_t> coredump_filter;  // /proc/PID/coredump_filter; images before: none
    bool thp_disable = false;
    std::optional<std::uint32_t> thp_disable_flags;   // PR_THP_DISABLE_*; none: none
    std::optional<std::uint32_t> deny_write_execute;  // PR_SET_MDWE: PR_MDWE_*; none: none, or not asked
    // Components of the processor's state, by their bits in XCR0, that it has asked for
    // (ARCH_REQ_XCOMP_PERM): AMX's tiles. None: it has asked for none; images before: not known.
    std::optional<std::uint64_t> state_permission;
    std::optional<std::uint32_t> protection_keys;  // those that it has allocated (pkey_alloc(2)), a bit each
    std::int32_t lock_future = 0;  // mlockall(2): MCL_FUTURE, MCL_ONFAULT for what is mapped from now on
    std::uint32_t personality = 0;
    std::vector<Limit> limits;  // index: RLIMIT_*
    // As the program sees them: with what was used before an earlier restart.
    std::int64_t cpu_user_us = 0, cpu_system_us = 0;
    std::int64_t cpu_children_user_us = 0, cpu_children_system_us = 0;  // of those waited for
    std::int64_t cpu_ns = 0;                                            // CLOCK_PROCESS_CPUTIME_ID
    std::uint32_t membarrier = 0;  // commands registered for, MEMBARRIER_CMD_REGISTER_*
    bool io_uring_off = false;     // by the filter of `cairn launch --io-uring=enosys`

    // Those that seccomp(2) has been given, beyond the session's own.
    std::vector<SeccompFilter> filters;

    std::vector<SignalAction> actions;   // index n-1 for signal n, 64 of them
    std::vector<Bytes> pending;          // siginfo_t, process-directed, oldest first
    std::vector<IntervalTimer> itimers;  // ITIMER_REAL, VIRTUAL, PROF
    std::vector<PosixTimer> timers;

    MemoryLayout layout;
    std::vector<Area> areas;
    std::vector<Thread> threads;  // the main thread first
    std::vector<Descriptor> descriptors;
    std::vector<FileLock> locks;
    std::vector<SemaphoreUndo> undo;

    // The hijack library's place in this process.
    ProgramAddress region_at;
    ProgramAddress door;          // of the agent's Door (common/agent.h)
    std::int64_t timing_tls = 0;  // offset of the TimingNote from each thread's pointer, 0: none
};

}  // namespace cairn::schema
