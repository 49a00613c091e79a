// The memory map of a process as the image shows it, and which pages of it have to be stored.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "capture/group.h"
#include "common/fd.h"
#include "common/schema/process.h"
#include "resources/capture/objects.h"

namespace cairn::capture {

// Taken while the process stands still: everything about its map that a copy-on-write child no longer shows.
struct StillMap {
    std::vector<proc::MapLine> lines;                // of the process itself
    std::map<ProgramAddress, std::int64_t> objects;  // start of a line -> schema::Object id
    std::vector<std::pair<ProgramRange, bool>>
        locked;                                    // mlock(2); true: MLOCK_ONFAULT (told since Linux 6.14)
    std::set<ProgramAddress> own_files;            // starts of lines: ObjectTable::is_of_own_mounts()
    std::map<ProgramAddress, std::uint64_t> huge;  // start of a line of hugetlb pages -> bytes of a page
};

// /proc/PID/maps of each.
[[nodiscard]] Result<std::vector<std::vector<proc::MapLine>>> mappings_of_all(const std::vector<pid_t>& pids);

// `lines`: of its /proc/PID/maps. Fails for what can't be saved: device memory.
[[nodiscard]] Result<StillMap> still_map(const StoppedProcess& process, const Holder& holder,
                                         std::vector<proc::MapLine> lines, ObjectTable& objects);

// Private memory of hugetlb pages. No copy-on-write child may keep it: a page that the program writes to
// would be wanted twice, and the pool may have no other. The program would be killed for it (MAP_NORESERVE),
// or the kernel takes the page from the child (unmap_ref_private() in mm/hugetlb.c).
[[nodiscard]] bool is_private_huge(const StillMap& map, const proc::MapLine& line);

// Parts of the map that fork did not copy (MADV_DONTFORK), or wiped (MADV_WIPEONFORK, known from `wiped`):
// they have to be stored before the process goes on.
[[nodiscard]] std::vector<ProgramRange> not_copied(const StillMap& map,
                                                   const std::vector<proc::MapLine>& child,
                                                   const std::vector<ProgramRange>& wiped);

// Whether the copy-on-write child has nothing where a line of the process's own map begins; of the kernel's
// own mappings it isn't said.
[[nodiscard]] bool is_uncopied(const proc::MapLine& line, const std::vector<proc::MapLine>& child);

// What is read from smaps, which walks all page tables: not to be done during the pause.
struct MemoryFlags {
    // What a fork empties (MADV_WIPEONFORK) and is to be saved all the same. Not what the kernel may empty at
    // any time (MAP_DROPPABLE, Linux 6.11), on which nobody relies: getrandom of the vdso keeps there what
    // glibc 2.41 and later draws from, and two restarts of one checkpoint must not draw the same.
    std::vector<ProgramRange> wiped;
    // Whether a userfaultfd watches any memory; or does so by write protection, which may be ours.
    bool watched = false, write_protected = false;
    // The main thread's stack, and what else grows down (MAP_GROWSDOWN).
    std::vector<ProgramRange> growing;
};
// Errors: it has no memory any more, or none that its main thread, which has ended, would show.
[[nodiscard]] Result<MemoryFlags> memory_flags(pid_t pid);
// The same of lines that have been read.
[[nodiscard]] MemoryFlags flags_among(const std::vector<proc::MapLine>& lines);

// The image's areas, without what only smaps tells. `scratch`: the agent's memory, left out.
[[nodiscard]] Result<std::vector<schema::Area>> make_areas(const StoppedProcess& process, const StillMap& map,
                                                           ProgramRange scratch);

// And that. `flags`: smaps of the copy-on-write child, and of the process itself what the child hasn't.
[[nodiscard]] Result<> add_flags(const StoppedProcess& process, const std::vector<proc::MapLine>& flags,
                                 std::vector<schema::Area>& areas);

// /proc/PID/pagemap, opened once for all areas of a process: one of thousands of threads has as many stacks.
class PageMap {
  public:
    explicit PageMap(pid_t pid) : pid_(pid) {}
    [[nodiscard]] pid_t pid() const { return pid_; }
    // Opened at the first call; borrowed.
    [[nodiscard]] Result<int> descriptor();

  private:
    pid_t pid_;
    Fd fd_;
};

// Pages of an area that differ from what a fresh mapping would show, at most `longest` bytes each; guard
// regions go into `guards`. Uses PAGEMAP_SCAN (Linux 6.7), else /proc/PID/pagemap.
[[nodiscard]] Result<std::vector<ProgramRange>> stored_pages(
    PageMap& map, const schema::Area& area, std::uint64_t longest,
    std::vector<std::pair<ProgramAddress, std::uint64_t>>& guards);

}  // namespace cairn::capture
