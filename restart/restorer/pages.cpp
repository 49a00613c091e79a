// The pages of the image: read by several threads, and brought to where they belong.
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "restart/restorer/blob.h"
#include "restart/restorer/window.h"

namespace cairn::restart::restorer {
namespace {

// Newer than Debian 12's headers: linux/userfaultfd.h of 6.8.
struct MoveRequest {
    std::uint64_t to, from, length, mode;
    std::int64_t moved;
};
constexpr unsigned long move_pages = _IOWR(UFFDIO, 0x05, MoveRequest);
constexpr std::uint64_t feature_move = 1 << 16;

constexpr long error_interrupted = -4, error_io = -5, error_again = -11, error_bad_data = -74;

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

constexpr std::uint64_t page_size = 4096;

// What is worked on next, a page ahead: what the processor fetches by itself ends where the page does, and
// memory is waited for at the beginning of each. Nothing happens where there is no such page.
enum class Fetch { to_read, to_write };
template <Fetch fetch>
void fetch_ahead(std::uint64_t page) {
    constexpr std::uint64_t cache_line = 64;
    for (std::uint64_t line = 0; line < page_size; line += cache_line)
        __builtin_prefetch(at<void>(page + line), fetch == Fetch::to_write ? 1 : 0, 2);
}

// By the processor's own instruction: there is no libc here.
void copy_page(std::uint64_t to, std::uint64_t from) {
    std::uint64_t count = page_size;
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

// `run`'s bytes are at `place`, and right (as is_run_hash() in common/image/page_hashes.h says). Of each page
// `then` is told, with how far it is from the run's begin, as long as it is in the processor's cache.
template <class Then>
void check(Params* params, std::uint32_t image, const Run& run, std::uint64_t place, Then then) {
    constexpr std::uint64_t most = std::uint64_t{1} << 20;  // bytes of a run whose hash is one of hashes
    const auto hash = params->wide_hash != 0 ? &hash_wide : &hash_plain;
    std::uint64_t of_pages[most / page_size];
    std::uint64_t count = 0;
    for (std::uint64_t done = 0; done < run.length; done += page_size) {
        fetch_ahead<Fetch::to_read>(place + done + page_size);
        const auto sum = hash(at<void>(place + done), page_size);
        if (count < most / page_size) of_pages[count++] = sum == 0 ? 1 : sum;
        then(done);
    }
    if (hash(of_pages, count * sizeof of_pages[0]) == run.hash ||
        hash(at<void>(place), run.length) == run.hash)
        return;
    params->failed_image = image;
    give_up(params, step_damaged, error_bad_data, run.address);
}

void check(Params* params, std::uint32_t image, const Run& run, std::uint64_t place) {
    check(params, image, run, place, [](std::uint64_t /*done*/) {});
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

// Time of this thread: who is interrupted learns nothing from how long that was.
std::uint64_t now() {
    timespec time = {};
    call(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// Which way a huge page's worth of memory comes faster is the machine's affair, and changes from one moment
// to the next: a huge page is cleared in a quarter of the time that 512 small ones take, and in three times
// the time if the machine is a guest whose host has taken back free blocks of that size (free page reporting)
// and has to find each of their pages again. So a reader tries both, and the slower one again from time to
// time, the more seldom the slower it was. It begins with small pages: many processes with a few MiB each
// would all pay for trying.
class Ways {
  public:
    [[nodiscard]] bool huge_is_next() {
        constexpr std::uint64_t at_first = 4;  // 8 MiB
        // Where one way takes ten times as long as the other, a try in each 64 MiB would be a quarter of all:
        // with this tries take a twentieth of the time, or less.
        constexpr std::uint64_t least = 32, share = 24;
        ++chosen_;
        if (huge_ns_ == 0) return chosen_ > at_first;
        const bool huge_is_faster = huge_ns_ <= small_ns_;
        const auto times = huge_is_faster ? small_ns_ / huge_ns_ : huge_ns_ / (small_ns_ + 1);
        if (chosen_ < (times * share < least ? least : times * share)) return huge_is_faster;
        chosen_ = 0;
        return !huge_is_faster;
    }
    // What it took of the processor. Huge pages come fast and slowly in turn, so that it is a mean; of what
    // is tried seldom the last time is all that counts.
    void took(bool huge, std::uint64_t ns) {
        auto& known = huge ? huge_ns_ : small_ns_;
        const auto most = known * 4;
        if (known == 0 || chosen_ == 0)
            known = ns;
        else if (ns < known)
            known = (known + ns) / 2;
        else
            known = (known * 3 + (ns < most ? ns : most)) / 4;
        if (known == 0) known = 1;
    }

  private:
    std::uint64_t huge_ns_ = 0, small_ns_ = 0;  // 0: not known yet
    std::uint64_t chosen_ = 0;                  // since the slower way was tried
};

// What a reader has.
struct Reading {
    std::uint64_t space;
    Ways ways;
    Window window;
};

// Runs that follow each other in the file are asked for together. `use(part, begin, seen)`: those of `part`
// are seen in the window at `seen`, from the image's byte `begin` on; or `seen` is 0, and they have to be
// read.
template <class Use>
void look_at_runs(Params* params, const Unit& unit, Window& window, Use use) {
    const auto* runs = at<Run>(params->runs) + unit.first_run;
    for (std::uint32_t i = 0; i < unit.run_count;) {
        Unit part = {unit.first_run + i, 0, unit.kind, unit.image, 0};
        const auto begin = runs[i].offset;
        auto end = begin;
        for (; i < unit.run_count && runs[i].offset == end; ++i, ++part.run_count) end += runs[i].length;
        use(part, begin, window.show(image_of(params, unit), begin, end - begin));
    }
}

// Into a huge page, and from there into place. A page is copied as soon as its checksum is known: a system
// call that copies all of them fills the cache with what its checksum then waits for once more.
void bring_huge(Params* params, const Unit& unit, Reading& reading) {
    const auto* runs = at<Run>(params->runs);
    const auto space = reading.space;
    const auto placed = [&](const Run& run) { return space + run.address % huge_page; };
    // Linux 5.14; otherwise the first write does it.
    call(SYS_madvise, space, huge_page, MADV_POPULATE_WRITE);
    look_at_runs(params, unit, reading.window,
                 [&](const Unit& part, std::uint64_t begin, std::uint64_t seen) {
                     if (seen == 0) return read_runs(params, part, placed);
                     for (auto i = part.first_run; i < part.first_run + part.run_count; ++i) {
                         const auto from = seen + (runs[i].offset - begin), to = placed(runs[i]);
                         check(params, part.image, runs[i], from, [&](std::uint64_t done) {
                             fetch_ahead<Fetch::to_write>(to + done + page_size);
                             copy_page(to + done, from + done);
                         });
                     }
                 });
    move_in(params, runs[unit.first_run].address, space);
}

// Into the buffer, and from there into small pages.
void read_in_parts(Params* params, const Unit& unit, std::uint64_t buffer) {
    const auto* runs = at<Run>(params->runs) + unit.first_run;
    for (std::uint32_t done = 0; done < unit.run_count;) {
        Unit part = unit;
        part.first_run += done;
        part.run_count = 0;
        const auto start = runs[done].address;  // they lie side by side
        std::uint64_t bytes = 0;
        for (; done < unit.run_count && bytes + runs[done].length <= unit_buffer; ++done) {
            bytes += runs[done].length;
            ++part.run_count;
        }
        read_runs(params, part, [&](const Run& run) { return buffer + (run.address - start); });
        copy_in(params, start, buffer, bytes);
    }
}

// Runs that lie anywhere, and together fit into the buffer.
void read_scattered(Params* params, const Unit& unit, std::uint64_t buffer) {
    const auto* runs = at<Run>(params->runs) + unit.first_run;
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

// Into small pages, out of the page cache where it can be mapped.
void bring_small(Params* params, const Unit& unit, Reading& reading) {
    const auto* runs = at<Run>(params->runs);
    look_at_runs(params, unit, reading.window,
                 [&](const Unit& part, std::uint64_t begin, std::uint64_t seen) {
                     if (seen == 0) {
                         const auto buffer = reading.space + huge_page;
                         return unit.kind == unit_either ? read_in_parts(params, part, buffer)
                                                         : read_scattered(params, part, buffer);
                     }
                     for (auto i = part.first_run; i < part.first_run + part.run_count; ++i) {
                         const auto from = seen + (runs[i].offset - begin);
                         check(params, part.image, runs[i], from);
                         copy_in(params, runs[i].address, from, runs[i].length);
                     }
                 });
}

void read_unit(Params* params, const Unit& unit, Reading& reading) {
    const auto* runs = at<Run>(params->runs) + unit.first_run;
    if (unit.kind == unit_in_place || params->user_fault < 0) {
        constexpr std::uint64_t worth_it = std::uint64_t{1} << 16;
        for (std::uint32_t i = 0; i < unit.run_count; ++i)
            if (runs[i].length >= worth_it)  // a fault for each page costs more; Linux 5.14, else it fails
                call(SYS_madvise, runs[i].address, runs[i].length, MADV_POPULATE_WRITE);
        read_runs(params, unit, [](const Run& run) { return run.address; });
    } else if (unit.kind == unit_huge) {
        bring_huge(params, unit, reading);
    } else if (unit.kind == unit_either) {
        const bool huge = reading.ways.huge_is_next();
        const auto begin = now();
        huge ? bring_huge(params, unit, reading) : bring_small(params, unit, reading);
        reading.ways.took(huge, now() - begin);
    } else {
        bring_small(params, unit, reading);
    }
}

std::uint64_t space_of(const Params* params, std::uint64_t reader) {
    return params->reader_spaces + reader * reader_space;
}

// All readers take from one list.
void read_units(Params* params, std::uint64_t space) {
    const auto* units = at<Unit>(params->units);
    Reading reading = {space, {}, {}};
    while (params->failed_step == step_none) {
        const auto next = __atomic_fetch_add(&params->next_unit, 1, __ATOMIC_RELAXED);
        if (next >= params->unit_count) break;
        read_unit(params, units[next], reading);
    }
    reading.window.close();
}

// Processors that a thread may run on, as sched_setaffinity(2) has them.
struct Processors {
    std::uint64_t bits[16];
    long size;  // bytes that are known; 0 or less: none

    [[nodiscard]] bool any() const {
        for (const auto each : bits)
            if (each != 0) return true;
        return false;
    }
    void give(long tid) const { call(SYS_sched_setaffinity, tid, size, bits); }
};

// Fails on a machine with more than there is room for.
Processors own_processors() {
    Processors own = {};
    own.size = call(SYS_sched_getaffinity, 0, sizeof own.bits, own.bits);
    return own;
}

struct Reader {
    Params* params;
    std::uint64_t space;
    Processors anywhere;
};

// A new thread may be left beside its maker for milliseconds, though another processor has nothing to do
// (common/helper_threads.h): so it begins on another one. From there it may go anywhere.
void begin_elsewhere(long tid, const Processors& anywhere) {
    Processors others = anywhere;
    std::uint32_t here = 0;
    if (tid <= 0 || anywhere.size <= 0 || call(SYS_getcpu, &here, nullptr, nullptr) != 0) return;
    if (here < sizeof others.bits * 8) others.bits[here / 64] &= ~(std::uint64_t{1} << here % 64);
    if (others.any()) others.give(tid);
}

[[noreturn]] void reader_main(Reader* reader) {
    auto* params = reader->params;
    if (reader->anywhere.size > 0) reader->anywhere.give(0);
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

}  // namespace

void read_pages(Params* params) {
    const auto length = params->readers * reader_space;
    const long mapped = call(SYS_mmap, params->reader_spaces, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    must(params, step_map, mapped, params->reader_spaces);
    for (std::uint64_t i = 0; i < params->readers; ++i)
        call(SYS_madvise, space_of(params, i), huge_page, MADV_HUGEPAGE);
    open_user_fault(params);
    const Processors anywhere = own_processors();
    for (std::uint64_t i = 1; i < params->readers; ++i) {
        const auto stack = space_of(params, i) + reader_stack_at;
        // the argument lies at the lower end of the reader's own stack
        auto* reader = at<Reader>(stack);
        *reader = {params, space_of(params, i), anywhere};
        // Without it the others do its share.
        begin_elsewhere(start_thread(stack, reader_stack_size, 0, reinterpret_cast<Entry>(&reader_main),
                                     reader, &params->reader_alive[i]),
                        anywhere);
    }
    read_units(params, space_of(params, 0));
    for (std::uint64_t i = 1; i < params->readers; ++i)
        for (std::uint32_t tid; (tid = __atomic_load_n(&params->reader_alive[i], __ATOMIC_ACQUIRE)) != 0;)
            call(SYS_futex, &params->reader_alive[i], FUTEX_WAIT, tid, nullptr);
    if (params->user_fault >= 0) call(SYS_close, params->user_fault);
}

}  // namespace cairn::restart::restorer
