// The restorer's memory: mappings. Their pages: pages.cpp.
#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "common/protections.h"
#include "restart/restorer/blob.h"

namespace cairn::restart::restorer {
namespace {

constexpr long guard_install = 102;  // newer than Debian 12's headers: linux/mman.h of 6.13
constexpr long error_exists = -17, error_invalid = -22;

// ENOMEM; EFAULT is MADV_POPULATE_WRITE's word for what would be SIGBUS.
bool is_lack(long result) {
    return result == -12 || result == -14;
}

void unmap_and_move(Params* params) {
    const auto* moves = at<Move>(params->moves);
    for (std::uint64_t i = 0; i < params->move_count; ++i)
        must(params, step_move,
             call(SYS_mremap, moves[i].from, moves[i].length, moves[i].length, MREMAP_MAYMOVE | MREMAP_FIXED,
                  moves[i].staging),
             moves[i].from);
    const auto* spans = at<Span>(params->unmap);
    for (std::uint64_t i = 0; i < params->unmap_count; ++i)
        must(params, step_unmap, call(SYS_munmap, spans[i].start, spans[i].length), spans[i].start);
    for (std::uint64_t i = 0; i < params->move_count; ++i)
        must(params, step_move,
             call(SYS_mremap, moves[i].staging, moves[i].length, moves[i].length,
                  MREMAP_MAYMOVE | MREMAP_FIXED, moves[i].to),
             moves[i].to);
}

void advise(Params* params, const Area& area, std::uint32_t flag, std::int32_t advice) {
    if ((area.flags & flag) == 0) return;
    const long result = call(SYS_madvise, area.start, area.end - area.start, advice);
    // a kernel without KSM or huge pages says EINVAL: the advice is lost, nothing else
    if (result < 0 && result != error_invalid) give_up(params, step_advise, result, area.start);
}

// By shmat(2), or shmdt(2) wouldn't know it; it maps a segment as a whole, and with all rights that there
// are.
void attach_area(Params* params, const Area& area) {
    constexpr long error_access = -13;
    constexpr std::uint64_t read_only = 010000;  // SHM_RDONLY
    const bool never_writable = (area.flags & area_never_writable) != 0;
    long result = call(SYS_shmat, area.segment, params->attach_at, never_writable ? read_only : 0);
    if (result == error_access) result = call(SYS_shmat, area.segment, params->attach_at, read_only);
    must(params, step_attach, result, static_cast<std::uint64_t>(area.segment));
    const auto length = area.end - area.start;
    must(params, step_attach,
         call(SYS_mremap, params->attach_at + area.offset, length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
              area.start),
         area.start);
    call(SYS_shmdt, params->attach_at);  // what is left of it; EINVAL if that is nothing
    if (area.prot != (PROT_READ | PROT_WRITE))
        must(params, step_protect, call(SYS_mprotect, area.start, length, area.prot), area.start);
}

// What the tool has opened for writing as well, for reading alone: what is mapped of that can't be made
// writable later. -1 where there is no /proc.
std::int32_t open_for_reading(std::int32_t fd) {
    char path[32] = "/proc/self/fd/";
    char digits[12];
    int count = 0;
    for (auto rest = static_cast<std::uint32_t>(fd); rest != 0 || count == 0; rest /= 10)
        digits[count++] = static_cast<char>('0' + rest % 10);
    int length = 14;
    while (count > 0) path[length++] = digits[--count];
    path[length] = 0;
    return static_cast<std::int32_t>(call(SYS_open, path, O_RDONLY | O_CLOEXEC, 0));
}

// Memory that was born with us. What is to be written into it is made writable for the moment, as other areas
// are.
void keep_area(Params* params, const Area& area) {
    if ((area.flags & area_filled) == 0 || area.prot == (PROT_READ | PROT_WRITE)) return;
    must(params, step_protect, call(SYS_mprotect, area.start, area.end - area.start, PROT_READ | PROT_WRITE),
         area.start);
}

// Memory of hugetlb pages takes them from the machine's pool, to which programs that have been killed a
// moment ago may still be giving theirs back.
template <class Call>
long with_patience(bool may_be_huge, Call make) {
    constexpr int tries = 200;
    constexpr timespec slice = {0, 10'000'000};
    long result = make();
    for (int i = 0; may_be_huge && is_lack(result) && i < tries; ++i) {
        call(SYS_nanosleep, &slice, nullptr);
        result = make();
    }
    return result;
}

void map_area(Params* params, const Area& area) {
    if ((area.flags & area_inherited) != 0) {
        keep_area(params, area);
        return;
    }
    if ((area.flags & area_segment) != 0) {
        attach_area(params, area);
        return;
    }
    std::int32_t fd = area.fd;
    if (area.path != 0) {
        const long opened = call(SYS_open, area.path, area.open_flags | O_CLOEXEC, 0);
        must(params, step_open_file, opened, area.path);
        fd = static_cast<std::int32_t>(opened);
    }
    std::int32_t for_reading = -1;
    if (fd >= 0 && (area.flags & area_never_writable) != 0) for_reading = open_for_reading(fd);
    if (for_reading >= 0) fd = for_reading;
    std::int32_t flags = MAP_FIXED_NOREPLACE;
    flags |= (area.flags & area_shared) != 0 ? MAP_SHARED : MAP_PRIVATE;
    if (fd < 0) flags |= MAP_ANONYMOUS;
    if ((area.flags & area_grows_down) != 0) flags |= MAP_GROWSDOWN;
    if ((area.flags & area_no_reserve) != 0) flags |= MAP_NORESERVE;
    if (area.huge_log2 != 0 && fd < 0) flags |= MAP_HUGETLB | static_cast<std::int32_t>(area.huge_log2) << 26;
    const std::int32_t prot = (area.flags & area_filled) != 0 ? PROT_READ | PROT_WRITE : area.prot;
    const auto map_as = [&](std::int32_t how) {
        return with_patience(area.huge_log2 != 0 || fd >= 0, [&] {
            return call(SYS_mmap, area.start, area.end - area.start, prot, how, fd, area.offset);
        });
    };
    // MAP_DROPPABLE in the place of MAP_PRIVATE; before Linux 6.11 it is no type of mapping.
    constexpr std::int32_t map_droppable = 8;
    const bool droppable = (area.flags & area_droppable) != 0;
    long result = map_as(droppable ? (flags & ~MAP_PRIVATE) | map_droppable : flags);
    if (droppable && result < 0) result = map_as(flags);
    must(params, area.huge_log2 != 0 ? step_huge_pages : step_map, result, area.start);
    if (static_cast<std::uint64_t>(result) != area.start) give_up(params, step_map, error_exists, area.start);
    if (area.path != 0 || for_reading >= 0) call(SYS_close, fd);
    advise(params, area, area_no_huge, MADV_NOHUGEPAGE);  // before pages come
    if (area.memory_policy != 0)
        call(SYS_mbind, area.start, area.end - area.start, area.memory_policy, area.memory_nodes,
             area.node_count, 0);
}

// The memory of an io_uring. Since Linux 6.4 the kernel alone chooses where it is mapped, whatever mmap(2)
// and mremap(2) ask for (io_uring_get_unmapped_area() in io_uring/). It takes a free place that is large
// enough, so for the moment there is one such place only: everything else is occupied by mappings that can't
// be touched.
void map_rings(Params* params) {
    if (params->free_count == 0) return;
    const auto occupy = [&](std::uint64_t start, std::uint64_t length) {
        must(params, step_map,
             call(SYS_mmap, start, length, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0),
             start);
    };
    const auto* free = at<Span>(params->free);
    const auto* areas = at<Area>(params->areas);
    const auto each_ring = [&](auto what) {
        for (std::uint64_t i = 0; i < params->area_count; ++i)
            if ((areas[i].flags & area_of_a_ring) != 0) what(areas[i], areas[i].end - areas[i].start);
    };
    for (std::uint64_t i = 0; i < params->free_count; ++i) occupy(free[i].start, free[i].length);
    each_ring([&](const Area& area, std::uint64_t length) { occupy(area.start, length); });
    each_ring([&](const Area& area, std::uint64_t length) {
        call(SYS_munmap, area.start, length);
        const long result = call(SYS_mmap, 0, length, area.prot, MAP_SHARED, area.fd, area.offset);
        must(params, step_map, result, area.start);
        if (static_cast<std::uint64_t>(result) != area.start)
            give_up(params, step_map, error_exists, area.start);
    });
    for (std::uint64_t i = 0; i < params->free_count; ++i) call(SYS_munmap, free[i].start, free[i].length);
}

// Where the pool is empty whoever touches such a page gets SIGBUS (MAP_NORESERVE): asked for by a call that
// fails (Linux 5.14; before, EINVAL).
void populate(Params* params) {
    const auto* spans = at<Span>(params->populated);
    for (std::uint64_t i = 0; i < params->populated_count; ++i) {
        const long result = with_patience(
            true, [&] { return call(SYS_madvise, spans[i].start, spans[i].length, MADV_POPULATE_WRITE); });
        if (result < 0 && result != error_invalid) give_up(params, step_huge_pages, result, spans[i].start);
    }
}

// Pages of compressed images: the tool decompresses them.
void wait_for_tool(const Params* params) {
    if (params->filled_by_tool != 0) asm volatile("int3" : : : "memory");
}

void open_other_images(Params* params) {
    auto* others = at<OtherImage>(params->others);
    for (std::uint64_t i = 0; i < params->other_count; ++i) {
        const long opened = call(SYS_open, others[i].path, O_RDONLY | O_CLOEXEC, 0);
        must(params, step_open_file, opened, others[i].path);
        others[i].fd = static_cast<std::int32_t>(opened);
    }
}

void close_other_images(const Params* params) {
    const auto* others = at<OtherImage>(params->others);
    for (std::uint64_t i = 0; i < params->other_count; ++i) call(SYS_close, others[i].fd);
}

// Where the parent has a page and we have none, anonymous memory has zeros, and a file's mapping the file.
void drop_pages(Params* params) {
    const auto* drops = at<Span>(params->drops);
    for (std::uint64_t i = 0; i < params->drop_count; ++i)
        must(params, step_advise, call(SYS_madvise, drops[i].start, drops[i].length, MADV_DONTNEED),
             drops[i].start);
}

void finish_area(Params* params, const Area& area) {
    if ((area.flags & area_filled) != 0 && area.prot != (PROT_READ | PROT_WRITE))
        must(params, step_protect, call(SYS_mprotect, area.start, area.end - area.start, area.prot),
             area.start);
    advise(params, area, area_dont_fork, MADV_DONTFORK);
    advise(params, area, area_wipe_on_fork, MADV_WIPEONFORK);
    advise(params, area, area_dont_dump, MADV_DONTDUMP);
    advise(params, area, area_huge, MADV_HUGEPAGE);
    advise(params, area, area_mergeable, MADV_MERGEABLE);
    advise(params, area, area_random, MADV_RANDOM);
    advise(params, area, area_sequential, MADV_SEQUENTIAL);
    if ((area.flags & area_locked) == 0) return;
    // Fails only where it isn't allowed; the other one also where a page can't be had (PROT_NONE), and locks
    // the rest all the same.
    must(params, step_lock_memory, call(SYS_mlock2, area.start, area.end - area.start, MLOCK_ONFAULT),
         area.start);
    if ((area.flags & area_lock_on_fault) == 0) call(SYS_mlock, area.start, area.end - area.start);
}

void finish_areas(Params* params) {
    const auto* guards = at<Span>(params->guards);
    bool guards_known = true;
    for (std::uint64_t i = 0; i < params->guard_count && guards_known; ++i) {
        const long result = call(SYS_madvise, guards[i].start, guards[i].length, guard_install);
        guards_known = result != error_invalid;
        if (guards_known) must(params, step_advise, result, guards[i].start);
    }
    const auto* areas = at<Area>(params->areas);
    for (std::uint64_t i = 0; i < params->area_count; ++i)
        if ((areas[i].flags & area_in_own_ipc) == 0) finish_area(params, areas[i]);
    // Before Linux 6.13: who touches them gets the same signal.
    for (std::uint64_t i = 0; i < params->guard_count && !guards_known; ++i)
        must(params, step_protect, call(SYS_mprotect, guards[i].start, guards[i].length, PROT_NONE),
             guards[i].start);
}

// A kernel without CONFIG_ANON_VMA_NAME has no names, which are for people to read.
void name_memory(const Params* params) {
    constexpr int set_vma = 0x53564d41, set_anon_name = 0;  // PR_SET_VMA of <linux/prctl.h>, Linux 5.17
    const auto* names = at<AreaName>(params->names);
    for (std::uint64_t i = 0; i < params->name_count; ++i)
        call(SYS_prctl, set_vma, set_anon_name, names[i].start, names[i].length, names[i].text);
}

// The page server takes it, watches it from now on, and serves what the rest of the blob touches.
void hand_over_lazy(Params* params) {
    if (params->lazy_count == 0) return;
    const long fd = call(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    must(params, step_lazy, fd, 0);
    uffdio_api api = {UFFD_API, params->lazy_features, 0};
    must(params, step_lazy, call(SYS_ioctl, fd, UFFDIO_API, &api), 1);
    const auto* areas = at<Span>(params->lazy);
    for (std::uint64_t i = 0; i < params->lazy_count; ++i) {
        uffdio_register request = {{areas[i].start, areas[i].length}, UFFDIO_REGISTER_MODE_MISSING, 0};
        must(params, step_lazy, call(SYS_ioctl, fd, UFFDIO_REGISTER, &request), areas[i].start);
    }
    params->lazy_fault = static_cast<std::int32_t>(fd);
    asm volatile("int3" : : : "memory");
    call(SYS_close, fd);
}

// Before there is a thread: an alternate stack that is too small for the state is refused from then on, and
// one that is there by then refuses the state.
void ask_for_state(Params* params) {
    for (std::uint64_t component = 0; component < 64; ++component)
        if ((params->state_permission >> component & 1) != 0)
            must(params, step_state, call(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, component), component);
}

// The kernel gives the lowest that is free. Before there is memory that can be executed alone, for which it
// takes one by itself; who was born with its parent's has those already.
void allocate_keys(Params* params) {
    if (params->protection_keys == 0) return;
    for (std::uint32_t key = 1; key < protection_key_count; ++key) call(SYS_pkey_free, key);
    for (std::uint32_t key = 1; params->protection_keys >> key != 0; ++key)
        must(params, step_keys, call(SYS_pkey_alloc, 0, 0), key);
    for (std::uint32_t key = 1; params->protection_keys >> key != 0; ++key)
        if ((params->protection_keys >> key & 1) == 0) call(SYS_pkey_free, key);
}

}  // namespace

void restore_memory(Params* params) {
    ask_for_state(params);
    allocate_keys(params);
    // the pages that are to come are to be as the program wants them
    if (params->thp_disable != 0 &&
        call(SYS_prctl, PR_SET_THP_DISABLE, 1, params->thp_disable_flags, 0, 0) == error_invalid)
        call(SYS_prctl, PR_SET_THP_DISABLE, 1, 0, 0, 0);  // before Linux 6.18 it has no flags
    unmap_and_move(params);
    const auto* areas = at<Area>(params->areas);
    map_rings(params);
    for (std::uint64_t i = 0; i < params->area_count; ++i)
        if ((areas[i].flags & (area_of_a_ring | area_in_own_ipc)) == 0) map_area(params, areas[i]);
    drop_pages(params);
    open_other_images(params);
    populate(params);
    wait_for_tool(params);
    read_pages(params);
    close_other_images(params);
    finish_areas(params);
    name_memory(params);
    call(SYS_munmap, params->reader_spaces, params->readers * reader_space);
    hand_over_lazy(params);
}

void protect_memory(Params* params) {
    const auto* keyed = at<KeyedArea>(params->keyed);
    for (std::uint64_t i = 0; i < params->keyed_count; ++i)
        must(params, step_keys,
             call(SYS_pkey_mprotect, keyed[i].start, keyed[i].length, keyed[i].prot, keyed[i].key),
             keyed[i].start);
    const auto* sealed = at<Span>(params->sealed);
    for (std::uint64_t i = 0; i < params->sealed_count; ++i)
        must(params, step_seal, call(mseal_call, sealed[i].start, sealed[i].length, 0), sealed[i].start);
    if (params->deny_write_execute != 0)
        must(params, step_deny, call(SYS_prctl, set_mdwe, params->deny_write_execute, 0, 0, 0),
             params->deny_write_execute);
}

void attach_in_own_ipc(Params* params) {
    const auto* areas = at<Area>(params->areas);
    for (std::uint64_t i = 0; i < params->area_count; ++i) {
        if ((areas[i].flags & area_in_own_ipc) == 0) continue;
        attach_area(params, areas[i]);
        finish_area(params, areas[i]);
    }
}

}  // namespace cairn::restart::restorer
