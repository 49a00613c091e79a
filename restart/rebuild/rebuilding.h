// One process while a restart rebuilds it: what it has of the tool, where the restorer lies in it, and how
// far it is. The functions that take it on its way are in enter.h, advance.h and leave.h, in this order.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/image/page_reader.h"
#include "common/ipc_map.h"
#include "common/schema/process.h"
#include "resources/restore/objects.h"
#include "resources/system_v/restore.h"
#include "restart/own_users.h"
#include "restart/rebuild/memory_plan.h"

namespace cairn::restart {

// What the process has inherited of the tool, all open at these numbers, and whom to ask about it. Needed
// until its memory is there.
struct Inherited {
    const ObjectSet& objects;
    const SystemV& system_v;
    int image_fd = -1;
    int region_fd = -1;
    int close_from = 0;  // descriptors from here on are the restart's own; -1: none is left when its memory
                         // is there (ObjectSet::postponed)
    bool exact_ids = false;
    std::function<std::string(std::int64_t object)> path_of;  // of a mapped file, path map applied
    // Of a folder below /proc/PID whose process has gone: the same below /proc/self; "": it is none.
    std::function<std::string(std::int64_t object)> in_proc_of_the_dead;
};

// Where things lie in the process.
struct Placement {
    ProgramAddress base;  // of the restorer with its parameters
    std::uint64_t size = 0;
    ProgramAddress params;                // restorer::Params
    ProgramAddress stack;                 // the main thread's while it is in the restorer: the end of `size`
    ProgramAddress staging;               // a free place for the kernel's special mappings, on their way
    ProgramAddress special;               // where they stay if the image has those of another kernel, or none
    std::uint64_t special_size = 0;       // with what lies between them
    bool unmaps_special = false;          // the program has unmapped the vdso: what is there goes last of all
    ProgramAddress vdso;                  // where the running kernel's vdso comes to lie
    ProgramAddress reader_spaces;         // free places for those who read pages (restorer::reader_space)
    ProgramAddress attach;                // a free place for the largest System V segment
    ProgramAddress threads;               // restorer::Thread, in the order of schema::Process::threads
    std::vector<ProgramAddress> filters;  // struct sock_fprog each, in the order of schema::Process::filters
};

// Ids as the program knows them -> the kernel's, and what its clock is ahead.
struct Translation {
    ToKernel to_kernel;
    IpcMap* ipc = nullptr;         // ids of System V objects
    std::int64_t clock_shift = 0;  // the process's CLOCK_MONOTONIC is ahead of the tool's by so much, ns
};

// Who holds an heir's descriptors, and which: those that are open when its memory comes.
struct HeirStandIn {
    pid_t pid = 0;  // 0: nobody
    std::vector<int> held;
};

struct ThreadIds {
    ProgramId image;
    KernelId now;
};

struct Rebuilding {
    pid_t pid = -1;
    const schema::Process* process = nullptr;
    std::string image_path;  // for messages
    Translation translation;
    MemoryPlan memory;  // lazy_runs: the pages that a page server brings
    // Children that will stop once more: the kernel's pids of those whose stop the program has waited for,
    // and whether there are others.
    std::vector<KernelId> told_children;
    bool untold_child = false;
    // Of a process whose children are born into another pid namespace: the first one there, and whether that
    // belongs to no user namespace of the group's own.
    KernelId first_of_children{};
    bool children_pids_early = false;
    // Of one in a pid namespace of a user namespace: who it becomes, by the numbers in there; none: who it
    // is.
    std::optional<Users> other_users{};
    // Who is born of it when its memory is there (restart/heirs/find.h): the place among all, and the id.
    std::vector<std::pair<std::size_t, ProgramId>> heirs;
    bool is_heir = false;
    HeirStandIn stand_in{};  // of an heir, once it is born
    std::string folder;      // of the images
    // Its own image, then MemoryPlan::others, none of them open (page_sources.h).
    std::vector<PageData> page_sources{};
    // Takes the process's userfaultfd for the page server, `there` being its number there.
    std::function<Result<>(ProgramFd there)> take_user_fault;

    Placement placement{};                 // enter()
    std::vector<std::uint8_t> to_place{};  // the restorer's parameters, until they are in the process
    bool filled = false;                   // MemoryPlan::written_runs are there
    bool handed_over = false;              // the userfaultfd was taken
    std::size_t ready = 0;                 // threads that the restorer has made
    std::vector<ThreadIds> thread_ids{};   // once all are made
};

}  // namespace cairn::restart
