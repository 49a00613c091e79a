// What the restart tool tells the restorer blob. Plain data at addresses of the process that is rebuilt;
// strings and arrays are given by address. The tool writes all of it before the blob runs.
#pragma once

#include <cstdint>

namespace cairn::restart::restorer {

struct Span {
    std::uint64_t start, length;
};

struct Move {  // a special mapping of the kernel's: from where exec put it, by way of `staging`, to where the
               // image has it
    std::uint64_t from, staging, to, length;
};

enum AreaFlags : std::uint32_t {
    area_shared = 1,
    area_grows_down = 2,
    area_no_reserve = 4,
    area_locked = 8,
    area_dont_fork = 16,
    area_wipe_on_fork = 32,
    area_dont_dump = 64,
    area_huge = 128,
    area_no_huge = 256,
    area_mergeable = 512,
    area_filled = 1024,  // pages are read into it: mapped writable first
    area_lock_on_fault = 2048,
    area_segment = 4096,
    area_droppable = 8192,
    area_never_writable = 16384,
    area_random = 32768,
    area_sequential = 65536,
    area_of_a_ring = 131072,   // of io_uring: the kernel chooses where
    area_inherited = 262144,   // there since the birth by the parent
    area_in_own_ipc = 524288,  // area_segment: attached when the namespaces are entered
};

struct Area {
    std::uint64_t start, end;
    std::int32_t prot;
    std::uint32_t flags;
    std::int32_t fd;          // -1: see path
    std::int32_t open_flags;  // for path
    std::uint64_t path;       // address of the file's name, 0: anonymous
    std::uint64_t offset;
    std::int32_t segment;        // area_segment: the System V segment's id
    std::int32_t memory_policy;  // mbind(2), as in Thread
    std::uint64_t memory_nodes, node_count;
    std::uint32_t huge_log2, pad;  // private memory of hugetlb pages of this size; 0: it isn't
};

struct Run {
    std::uint64_t address, length, offset, hash;
};

// How a unit of runs gets to its place (restart/rebuild/memory_plan.h).
enum UnitKind : std::uint32_t {
    unit_in_place,  // read where it belongs
    unit_huge,      // an aligned 2 MiB: read into a huge page that is then moved into place
    unit_copied,    // at most unit_buffer bytes, copied into place by the kernel
    unit_either,    // an aligned 2 MiB of runs of at most unit_buffer bytes: the one or the other
};

struct Unit {
    std::uint64_t first_run;
    std::uint32_t run_count, kind;
    std::uint32_t image, pad;  // 0: the process's own; n: Params::others[n - 1]
};

// The image of another process, some of whose pages are ours as well.
struct OtherImage {
    std::uint64_t path;  // address of its name
    std::int32_t fd;     // the blob's
    std::uint32_t pad;
};

// A descriptor that another process holds for us, at the same number.
using Held = std::int32_t;

constexpr std::uint64_t huge_page = std::uint64_t{1} << 21;
constexpr std::uint64_t unit_buffer = std::uint64_t{1} << 20;
constexpr std::uint64_t reader_space = 2 * huge_page;  // of each reader: a huge page, a buffer, a stack
constexpr std::uint32_t max_readers = 16;
constexpr std::uint64_t reader_stack_at = huge_page + unit_buffer, reader_stack_size = 65536;

struct Thread {
    std::int32_t tid;              // as the kernel is to name it; 0: any. First one: the process itself
    std::int32_t image_tid;        // as the program knows it
    std::int32_t old_tid;          // as the kernel named it at the checkpoint
    std::int32_t real_tid;         // filled in by the blob
    std::uint32_t set_scheduling;  // 0: what it inherits is right
    std::uint64_t altstack_base, altstack_size;
    std::int32_t altstack_flags, death_signal;
    std::uint64_t clear_child_tid, robust_list, robust_list_size;
    std::uint64_t rseq;
    std::uint32_t rseq_size, rseq_signature;
    std::uint64_t timerslack;
    char name[16];
    std::uint32_t sched_policy, sched_priority;
    std::int32_t nice, ioprio;
    std::uint64_t sched_runtime, sched_deadline, sched_period, sched_flags;
    std::uint64_t affinity, affinity_size;  // address, bytes; 0: leave
    std::uint64_t cap_effective, cap_permitted, cap_inheritable, cap_ambient;
    std::uint64_t pending;  // address of siginfo_t, 128 bytes each
    std::uint32_t pending_count;
    std::int32_t memory_policy;  // set_mempolicy(2)
    std::uint64_t memory_nodes;  // address of its nodes
    std::uint64_t node_count;    // how many the bits there stand for, and one: as the call wants it
    std::uint64_t no_new_privs;
    std::uint64_t credentials;  // address: Credentials; 0: the process's
    std::uint32_t own_folders;  // 1: these are its own
    std::int32_t root_fd, cwd_fd;
    std::uint32_t umask;
    std::uint32_t stands;                        // the blob's: it is in its own folders
    std::int32_t memory_errors;                  // PR_MCE_KILL_SET
    std::uint32_t no_time_stamps;                // 1: PR_TSC_SIGSEGV
    std::uint32_t uses_tiles;                    // 1: AMX's
    std::uint32_t no_cpuid;                      // 1: ARCH_SET_CPUID, to fault
    std::int32_t store_bypass, indirect_branch;  // PR_SET_SPECULATION_CTRL; 0: what it inherits is right
    std::uint32_t pad;
    std::uint64_t thread_pointer;  // fs_base
    std::int64_t cpu_ns;           // CLOCK_THREAD_CPUTIME_ID as the program saw it
    alignas(16) std::uint8_t stack[4096];
};

struct AreaName {  // of anonymous memory (PR_SET_VMA_ANON_NAME)
    std::uint64_t start, length;
    std::uint64_t text;  // address
};

struct KeyedArea {  // pkey_mprotect(2)
    std::uint64_t start, length;
    std::int32_t prot;
    std::uint32_t key;
};

struct Action {  // the kernel's struct sigaction
    std::uint64_t handler, flags, restorer, mask;
};

struct Timer {
    std::int32_t id, clock, notify, signal;
    std::int32_t tid;        // image_tid of a thread, 0: of none
    std::int32_t own_clock;  // 1: `clock` names a thread, by its image_tid
    std::uint64_t value;
    std::int64_t left_ns, interval_ns;
};

// A descriptor that is put in place when those of the restart are closed: another process keeps it.
struct Postponed {
    std::int32_t fd, keeper, number;
    std::int32_t twin;  // not -1: a duplicate of this descriptor
};

struct Lock {
    std::int32_t fd, lease;  // lease 0: a POSIX lock
    std::int64_t type;       // F_RDLCK, F_WRLCK
    std::int64_t start, length;
};

// A promise of SEM_UNDO: operations that leave the semaphore as it is.
struct Undo {
    std::int32_t semaphores, pad;
    struct {
        std::uint16_t number;
        std::int16_t operation, flags;
    } operations[2];  // struct sembuf
    std::uint32_t pad2;
};

struct Notify {  // mq_notify(2)
    std::int32_t fd, signal, notify, pad;
    std::uint64_t value;
};

struct RingBuffers {  // io_uring_register(2), IORING_REGISTER_BUFFERS
    std::int32_t fd;
    std::uint32_t count;
    std::uint64_t vectors;  // address: struct iovec
};

struct IntervalTimer {  // struct itimerval
    std::int64_t interval_sec, interval_usec, left_sec, left_usec;
};

struct Credentials {
    std::uint32_t change;    // 0: they are what they must be
    std::uint32_t ids_kept;  // 1: user and groups have been set before a user namespace was entered
    std::uint32_t pad2;
    std::uint32_t uids[4], gids[4];
    std::uint32_t securebits, no_new_privs, keep_caps;
    std::uint32_t set_groups, pad;
    std::uint64_t groups;  // address
    std::uint64_t group_count;
    std::uint64_t cap_bounding;
};

// Where the blob was when something failed; restart/rebuild/failure.cpp has the words for it.
enum Step : std::uint32_t {
    step_none,
    step_unmap,
    step_move,
    step_map,
    step_open_file,
    step_read,
    step_damaged,
    step_protect,
    step_advise,
    step_layout,
    step_signals,
    step_thread,
    step_rseq,
    step_altstack,
    step_credentials,
    step_root,
    step_namespaces,
    step_pids,
    step_timers,
    step_descriptors,
    step_scheduling,
    step_time_stamps,
    step_pending,
    step_lazy,
    step_locks,
    step_lock_memory,
    step_attach,
    step_undo,
    step_notify,
    step_ring_buffers,
    step_birth,
    step_huge_pages,
    step_state,
    step_seal,
    step_keys,
    step_deny,
    step_cpuid,
};

struct Params {
    std::uint32_t failed_step;
    std::int32_t failed_errno;
    std::uint64_t failed_detail;  // an address, an id: what the step worked on

    std::uint64_t unmap, unmap_count;  // Span
    std::uint64_t moves, move_count;
    std::uint64_t areas, area_count;
    std::uint64_t free,
        free_count;  // Span: where nothing is before the areas are mapped, if one is of a ring
    std::uint64_t runs, run_count;
    std::uint64_t units, unit_count;
    std::uint64_t guards, guard_count;         // Span: MADV_GUARD_INSTALL
    std::uint64_t names, name_count;           // AreaName
    std::uint64_t populated, populated_count;  // Span: private hugetlb pages that are to be there
    std::uint64_t watched, watched_count;      // Span: areas of units that aren't read in place
    std::uint64_t next_unit;                   // the blob's: shared by its readers
    std::uint32_t reader_alive[max_readers];   // the blob's
    std::uint32_t readers;                     // threads that read, at least 1
    std::uint64_t reader_spaces;  // address of a free place for `readers` spaces, aligned to a huge page
    std::uint32_t wide_hash;      // the CPU has AVX2
    std::int32_t image_fd;
    std::uint64_t others, other_count;  // OtherImage
    std::uint64_t drops, drop_count;    // Span: pages that the parent has, and we haven't
    std::uint64_t births, birth_count;  // int32_t each: the id that the kernel is to give an heir; 0: any
    std::uint32_t failed_image;      // the blob's: of which image the pages are that failed, as Unit::image
    std::uint32_t born;              // the blob's: in an heir, which of the births it is, from 1 on
    std::int32_t stand_in;           // who holds our descriptors; 0: we have them
    std::uint64_t held, held_count;  // Held
    std::int32_t stand_in_seat;      // a number that is none of these
    std::uint32_t own_group;         // we lead a group that nobody else is in
    std::uint64_t lazy, lazy_count;  // Span: served later
    std::uint64_t lazy_features;     // of the userfaultfd for these
    std::uint32_t filled_by_tool;  // 1: it traps when the memory is mapped, and the tool writes pages into it
    std::uint32_t filled_pad;
    std::int32_t lazy_fault;  // the blob's: that userfaultfd, for the tool to take when it traps
    std::uint32_t pad;
    std::int32_t user_fault;  // the blob's: userfaultfd while it reads, -1: none

    std::uint64_t layout, layout_size;  // struct prctl_mm_map
    std::uint64_t threads, thread_count;
    std::uint64_t timers, timer_count;
    std::uint64_t pending, pending_count;
    IntervalTimer itimers[3];
    Action actions[64];
    Credentials credentials;
    std::uint32_t umask, subreaper, thp_disable, membarrier;
    std::uint32_t thp_disable_flags;
    std::uint32_t deny_write_execute;    // PR_SET_MDWE; 0: leave
    std::uint64_t sealed, sealed_count;  // Span: mseal(2)
    std::uint64_t keyed, keyed_count;    // KeyedArea
    std::uint32_t protection_keys;       // to be allocated, a bit each
    std::uint32_t keys_pad;
    std::uint64_t state_permission;  // bits of the components to be asked for (ARCH_REQ_XCOMP_PERM)
    std::int32_t dumpable, lock_future;
    std::uint64_t personality;
    std::int32_t root_fd, cwd_fd;      // root_fd -1: leave
    std::int32_t children_pids;        // the first process of the pid namespace for its children; 0: its own
    std::int32_t children_pids_early;  // 1: before it enters a user namespace
    std::int32_t empty_pids,
        ended_pids;  // 1: its children are born into a new one; its first process has ended
    std::uint64_t clocks_of_children,
        clocks_of_children_size;      // what timens_offsets is to be given; 0: nothing
    std::uint64_t own_root, own_cwd;  // addresses of paths in a mount namespace of the group's own; 0: none
    std::uint64_t root_of_the_dead;   // address of a path below /proc/self, of a child that ends; 0: none
    std::uint64_t namespaces, namespace_count;  // int32_t descriptors each, in the order of entering
    std::uint32_t close_from;                   // descriptors of the restart from here on
    std::uint32_t cloexec_count;
    std::int32_t first_own, last_own;          // these are closed when the memory is there; last_own -1: none
    std::int32_t seat, seat_pad;               // of a pidfd, meanwhile
    std::uint64_t postponed, postponed_count;  // Postponed
    std::uint64_t cloexec;                     // int32_t each
    std::uint64_t locks, lock_count;           // Lock
    std::uint64_t undo, undo_count;            // Undo
    std::uint64_t notifications, notification_count;  // Notify
    std::uint64_t ring_buffers, ring_buffers_count;   // RingBuffers
    std::uint64_t attach_at;                          // a free place for the largest segment that is attached
    std::uint64_t stopped_children;  // int32_t pids whose stop the program has already waited for
    std::uint32_t stopped_children_count, drop_child_signals;
    std::uint64_t door;       // address: Door
    std::uint64_t has_notes;  // 1: the library has a place for notes in each thread (Door::cpu_tls)
    std::int64_t cpu_ns;      // CLOCK_PROCESS_CPUTIME_ID as the program saw it; and so are these
    std::int64_t cpu_user_us, cpu_system_us, cpu_children_user_us, cpu_children_system_us;
};

// The blob begins with these, one word each: offsets of its entries from its start.
struct Entries {
    std::uint64_t
        rebuild;         // (Params*): memory, threads, everything that may be done before the barrier; traps
    std::uint64_t go;    // (Params*): timers, pending signals; traps
    std::uint64_t size;  // of the blob, bytes
};

}  // namespace cairn::restart::restorer
