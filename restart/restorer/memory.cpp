// The restorer's memory: mappings, and the pages of the image.
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "restart/restorer/blob.h"

namespace cairn::restart::restorer {
namespace {

// Newer than Debian 12's headers: linux/mman.h of 6.13, linux/userfaultfd.h of 6.8.
constexpr long guard_install = 102;
struct MoveRequest {
    std::uint64_t to, from, length, mode;
    std::int64_t moved;
};
constexpr unsigned long move_pages = _IOWR(UFFDIO, 0x05, MoveRequest);
constexpr std::uint64_t feature_move = 1 << 16;

constexpr long error_interrupted = -4, error_io = -5, error_again = -11, error_exists = -17,
               error_invalid = -22, error_bad_data = -74;

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

std::int32_t image_of(const Params* params, const Unit& unit) {
    return unit.image == 0 ? params->image_fd : at<OtherImage>(params->others)[unit.image - 1].fd;
}

// Reads the runs' bytes, which follow each other in the image, to where `to` says.
void read_all(Params* params, std::int32_t image, iovec* to, std::uint32_t count, std::uint64_t offset) {
    while (count > 0) {
        const long got = call(SYS_preadv, image, to, count, offset, 0);
        if (got == error_interrupted) continue;
        if (got <= 0)
            give_up(params, step_read, got == 0 ? error_io : got,
                    reinterpret_cast<std::uint64_t>(to->iov_base));
        offset += static_cast<std::uint64_t>(got);
        for (auto left = static_cast<std::uint64_t>(got); left > 0;) {
            const auto part = left < to->iov_len ? left : to->iov_len;
            to->iov_base = static_cast<char*>(to->iov_base) + part;
            to->iov_len -= part;
            left -= part;
            if (to->iov_len == 0) {
                ++to;
                --count;
            }
        }
    }
}

// As is_run_hash() in common/image/page_hashes.h.
bool is_right(const Params* params, const Run& run, std::uint64_t place) {
    constexpr std::uint64_t page_size = 4096, most = std::uint64_t{1} << 20;  // bytes of a run
    const auto hash = params->wide_hash != 0 ? &hash_wide : &hash_plain;
    std::uint64_t of_pages[most / page_size];
    std::uint64_t count = 0;
    for (std::uint64_t done = 0; done < run.length && count < most / page_size; done += page_size) {
        const auto sum = hash(at<void>(place + done), page_size);
        of_pages[count++] = sum == 0 ? 1 : sum;
    }
    return hash(of_pages, count * sizeof of_pages[0]) == run.hash ||
           hash(at<void>(place), run.length) == run.hash;
}

// `run`'s bytes are at `place`.
void check(Params* params, std::uint32_t image, const Run& run, std::uint64_t place) {
    if (is_right(params, run, place)) return;
    params->failed_image = image;
    give_up(params, step_damaged, error_bad_data, run.address);
}

// Runs that follow each other in the file come by one call. `place(run)` says where each goes.
template <class Place>
void read_runs(Params* params, const Unit& unit, Place place) {
    const auto* runs = at<Run>(params->runs) + unit.first_run;
    const auto count = unit.run_count;
    const auto image = image_of(params, unit);
    constexpr std::uint32_t most = 64;
    iovec to[most];
    for (std::uint32_t i = 0; i < count;) {
        const auto first = i;
        std::uint64_t end = runs[i].offset;
        std::uint32_t n = 0;
        for (; i < count && n < most && runs[i].offset == end; ++i) {
            to[n++] = {at<void>(place(runs[i])), runs[i].length};
            end += runs[i].length;
        }
        read_all(params, image, to, n, runs[first].offset);
        for (auto k = first; k < i; ++k) check(params, unit.image, runs[k], place(runs[k]));
    }
}

void copy_in(Params* params, std::uint64_t to, std::uint64_t from, std::uint64_t length) {
    while (length > 0) {
        uffdio_copy request = {to, from, length, 0, 0};
        const long result = call(SYS_ioctl, params->user_fault, UFFDIO_COPY, &request);
        if (result < 0 && result != error_again) give_up(params, step_read, result, to);
        if (request.copy <= 0) continue;
        const auto done = static_cast<std::uint64_t>(request.copy);
        to += done;
        from += done;
        length -= done;
    }
}

void move_in(Params* params, std::uint64_t to, std::uint64_t from) {
    for (std::uint64_t done = 0; done < huge_page;) {
        MoveRequest request = {to + done, from + done, huge_page - done, 0, 0};
        const long result = call(SYS_ioctl, params->user_fault, move_pages, &request);
        if (request.moved > 0) done += static_cast<std::uint64_t>(request.moved);
        if (result < 0 && result != error_again)  // a kernel before 6.8, or a page that is in use just now
            return copy_in(params, to + done, from + done, huge_page - done);
    }
}

void read_unit(Params* params, const Unit& unit, std::uint64_t space) {
    const auto* runs = at<Run>(params->runs) + unit.first_run;
    const auto buffer = space + huge_page;
    if (unit.kind == unit_in_place || params->user_fault < 0) {
        constexpr std::uint64_t worth_it = std::uint64_t{1} << 16;
        for (std::uint32_t i = 0; i < unit.run_count; ++i)
            if (runs[i].length >= worth_it)  // a fault for each page costs more; Linux 5.14, else it fails
                call(SYS_madvise, runs[i].address, runs[i].length, MADV_POPULATE_WRITE);
        read_runs(params, unit, [](const Run& run) { return run.address; });
    } else if (unit.kind == unit_huge) {
        read_runs(params, unit, [&](const Run& run) { return space + run.address % huge_page; });
        move_in(params, runs[0].address, space);
    } else {
        std::uint64_t length = 0;
        const auto placed = [&](const Run& run) {
            std::uint64_t before = 0;
            for (const auto* other = runs; other != &run; ++other) before += other->length;
            return buffer + before;
        };
        read_runs(params, unit, placed);
        for (std::uint32_t i = 0; i < unit.run_count; length += runs[i++].length)
            copy_in(params, runs[i].address, buffer + length, runs[i].length);
    }
}

std::uint64_t space_of(const Params* params, std::uint64_t reader) {
    return params->reader_spaces + reader * reader_space;
}

// All readers take from one list.
void read_units(Params* params, std::uint64_t space) {
    const auto* units = at<Unit>(params->units);
    while (params->failed_step == step_none) {
        const auto next = __atomic_fetch_add(&params->next_unit, 1, __ATOMIC_RELAXED);
        if (next >= params->unit_count) return;
        read_unit(params, units[next], space);
    }
}

struct Reader {
    Params* params;
    std::uint64_t space;
};

[[noreturn]] void reader_main(Reader* reader) {
    auto* params = reader->params;
    read_units(params, reader->space);
    call(SYS_exit, 0);
    trap();
}

// A huge page can be had by advice only, and advice can't be taken back (there is MADV_HUGEPAGE and
// MADV_NOHUGEPAGE, but no way to neither). So huge pages are filled elsewhere and moved to where they belong.
// The kernel moves pages for a userfaultfd only; an ordinary user may have one for this.
void open_user_fault(Params* params) {
    params->user_fault = -1;
    if (params->watched_count == 0) return;
    const auto open_with = [&](std::uint64_t features) {
        const auto fd = static_cast<std::int32_t>(call(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
        if (fd < 0) return;
        uffdio_api api = {UFFD_API, features, 0};
        if (call(SYS_ioctl, fd, UFFDIO_API, &api) == 0)
            params->user_fault = fd;
        else
            call(SYS_close, fd);
    };
    open_with(feature_move);
    if (params->user_fault < 0) open_with(0);
    const auto* watched = at<Span>(params->watched);
    for (std::uint64_t i = 0; i < params->watched_count && params->user_fault >= 0; ++i) {
        uffdio_register request = {{watched[i].start, watched[i].length}, UFFDIO_REGISTER_MODE_MISSING, 0};
        if (call(SYS_ioctl, params->user_fault, UFFDIO_REGISTER, &request) == 0) continue;
        call(SYS_close, params->user_fault);  // nothing is watched any more
        params->user_fault = -1;
    }
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

void read_memory(Params* params) {
    const auto length = params->readers * reader_space;
    const long mapped = call(SYS_mmap, params->reader_spaces, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    must(params, step_map, mapped, params->reader_spaces);
    for (std::uint64_t i = 0; i < params->readers; ++i)
        call(SYS_madvise, space_of(params, i), huge_page, MADV_HUGEPAGE);
    open_user_fault(params);
    for (std::uint64_t i = 1; i < params->readers; ++i) {
        const auto stack = space_of(params, i) + reader_stack_at;
        // the argument lies at the lower end of the reader's own stack
        auto* reader = at<Reader>(stack);
        *reader = {params, space_of(params, i)};
        // without it the others do its share
        (void)start_thread(stack, reader_stack_size, 0, reinterpret_cast<Entry>(&reader_main), reader,
                           &params->reader_alive[i]);
    }
    read_units(params, space_of(params, 0));
    for (std::uint64_t i = 1; i < params->readers; ++i)
        for (std::uint32_t tid; (tid = __atomic_load_n(&params->reader_alive[i], __ATOMIC_ACQUIRE)) != 0;)
            call(SYS_futex, &params->reader_alive[i], FUTEX_WAIT, tid, nullptr);
    if (params->user_fault >= 0) call(SYS_close, params->user_fault);
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

}  // namespace

void restore_memory(Params* params) {
    // the pages that are to come are to be as the program wants them
    if (params->thp_disable != 0) call(SYS_prctl, PR_SET_THP_DISABLE, 1, 0, 0, 0);
    unmap_and_move(params);
    const auto* areas = at<Area>(params->areas);
    map_rings(params);
    for (std::uint64_t i = 0; i < params->area_count; ++i)
        if ((areas[i].flags & (area_of_a_ring | area_in_own_ipc)) == 0) map_area(params, areas[i]);
    drop_pages(params);
    open_other_images(params);
    populate(params);
    wait_for_tool(params);
    read_memory(params);
    close_other_images(params);
    finish_areas(params);
    call(SYS_munmap, params->reader_spaces, params->readers * reader_space);
    hand_over_lazy(params);
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
