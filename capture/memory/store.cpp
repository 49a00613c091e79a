#include "capture/memory/store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

#include "common/helper_threads.h"
#include "common/image/page_hashes.h"

namespace cairn::capture {
namespace {

bool all_zero(const std::uint8_t* data) {
    std::uint64_t first = 0;
    std::memcpy(&first, data, sizeof first);
    return first == 0 && std::memcmp(data, data + sizeof first, image_page - sizeof first) == 0;
}

// CAIRN_TRACK_CHECK=1 in the coordinator's environment.
bool compares_unchanged() {
    const char* value = std::getenv("CAIRN_TRACK_CHECK");
    return value != nullptr && std::string_view(value) == "1";
}

// What of the ranges, which are many, lies in this one.
PageRanges parts_of(const PageRanges& ranges, ProgramRange in) {
    PageRanges parts;
    for (auto range = std::ranges::upper_bound(ranges, in.start, {}, &ProgramRange::end);
         range != ranges.end() && range->start < in.end; ++range)
        parts.push_back({std::max(range->start, in.start), std::min(range->end, in.end)});
    return parts;
}

class Store {
  public:
    Store(std::vector<StoreJob>& jobs, Reporter& reporter, std::uint64_t already, std::uint64_t total)
        : jobs_(jobs), reporter_(reporter), done_(already), total_(total) {}

    void work(bool reports) {
        Hands hands;
        for (;;) {
            const auto index = next_.fetch_add(1);
            if (index >= jobs_.size() || failed_.load()) return;
            StoreJob& job = jobs_[index];
            if (auto done = store(job, hands); !done) {
                const std::scoped_lock lock(mutex_);
                if (!failed_.exchange(true)) error_ = std::move(done.error());
                return;
            }
            done_ += job.range.length();
            if (!reports) continue;
            reporter_.progress(done_, total_, job.label);
            if (auto fine = reporter_.may_go_on([&] { return "writing the image of " + job.label; }); !fine) {
                const std::scoped_lock lock(mutex_);
                if (!failed_.exchange(true)) error_ = std::move(fine.error());
            }
        }
    }

    [[nodiscard]] std::uint64_t compared() const { return compared_; }
    [[nodiscard]] Result<> result() {
        if (failed_.load()) return std::unexpected(std::move(error_));
        return {};
    }

  private:
    // What one thread reads with: of the process that is stored, and of who lends it pages.
    struct Hands {
        std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(1 << 20),
                                  lenders = std::vector<std::uint8_t>(1 << 20);
        ptrace::ForcedReader mine, theirs;
    };

    // By /proc/PID/mem. process_vm_readv(2) pins what it reads, and since Linux 5.19 a page that is shared by
    // a fork is copied before it is pinned (gup_must_unshare() in mm/gup.c): reading a copy-on-write child
    // would take as much memory again, and twice the time. It is for kernels that let nobody read by the
    // file.
    static Result<> read(pid_t source, ptrace::ForcedReader& by, const StoreJob& job,
                         std::span<std::uint8_t> to) {
        auto done = by.read(source, job.range.start, std::as_writable_bytes(to));
        const bool readable = (job.area->prot & 1) != 0;
        if (!done && readable)
            done = ptrace::read_memory(source, job.range.start, std::as_writable_bytes(to));
        return done;
    }

    Result<> store(StoreJob& job, Hands& hands) {
        if (job.lender)
            if (const auto all = same_pages(*job.lender, job.source, job.range)) {
                const std::scoped_lock lock(mutex_);
                for (const auto& each : *all) add_borrowed(*job.area, each);
                return {};
            }
        const auto bytes = std::span(hands.buffer).first(job.range.length());
        CHECK_OK(read(job.source, hands.mine, job, bytes));
        if (!job.lender) return store_own(job, job.range.start, bytes);
        const auto others = std::span(hands.lenders).first(job.range.length());
        // What the lender hasn't mapped in the same way is none of its pages.
        if (!read(job.lender->source, hands.theirs, job, others))
            return store_own(job, job.range.start, bytes);
        // Pieces of one run come one after the other: it is looked at once.
        std::optional<schema::PageRun> seen;
        bool unchanged = false;
        for (const auto& piece : compare_pages(*job.lender, job.range, bytes, others)) {
            const auto part = bytes.subspan(piece.range.start - job.range.start, piece.range.length());
            if (piece.stored && (!seen || seen->at != piece.stored->run.at)) {
                seen = piece.stored->run;
                unchanged = is_unchanged(job, *seen, others);
            }
            if (!piece.stored || !unchanged) {
                CHECK_OK(store_own(job, piece.range.start, part));
                continue;
            }
            const auto& run = piece.stored->run;
            const auto hash = piece.whole ? run.hash : run_hash(part);
            const std::scoped_lock lock(mutex_);
            add_borrowed(*job.area,
                         {piece.stored->from,
                          piece.stored->file,
                          {piece.range.start, part.size(), run.offset + (piece.range.start - run.at), hash}});
        }
        return {};
    }

    // Whether the run that the lender has stored is what it was compared by, all of it.
    static bool is_unchanged(const StoreJob& job, const schema::PageRun& run,
                             std::span<const std::uint8_t> theirs) {
        if (job.range.start <= run.at && run.at + run.length <= job.range.end)
            return still_as_stored(run, job.range, theirs);
        const ProgramRange all{run.at, run.at + run.length};
        std::vector<std::uint8_t> whole(run.length);
        if (!ptrace::read_memory_forced(job.lender->source, run.at, std::as_writable_bytes(std::span(whole))))
            return false;
        // What is in both was the same when it was compared.
        const auto start = std::max(run.at, job.range.start), end = std::min(all.end, job.range.end);
        return still_as_stored(run, all, whole) &&
               std::memcmp(&whole[start - run.at], &theirs[start - job.range.start], end - start) == 0;
    }

    // What no other process has: but for zeros, and for what an earlier generation has.
    Result<> store_own(const StoreJob& job, ProgramAddress start, std::span<const std::uint8_t> bytes) {
        if (job.compared != nullptr) CHECK_OK(compare_unchanged(job, start, bytes));
        const auto pages = look_at(job, start, bytes);
        std::vector<OwnRun> own;
        for (std::size_t first = 0; first < pages.size();) {
            const auto& page = pages[first];
            std::size_t end = first + 1;
            while (end < pages.size() && pages[end].follows(page, end - first)) ++end;
            const auto part = bytes.subspan(first * image_page, (end - first) * image_page);
            const auto at = start + first * image_page;
            if (page.where == Where::here) {
                own.push_back({at, part, std::span(pages).subspan(first, end - first)});
            } else if (page.where == Where::earlier) {
                job.earlier->use(page.earlier.image);
                const auto hash = run_hash(hashes_of(std::span(pages).subspan(first, end - first)));
                const std::scoped_lock lock(mutex_);
                add_borrowed(*job.area, {job.process,
                                         job.earlier->name(page.earlier.image),
                                         {at, part.size(), page.earlier.offset, hash}});
            }
            first = end;
        }
        return write_runs(job, own);
    }

    Result<> compare_unchanged(const StoreJob& job, ProgramAddress start,
                               std::span<const std::uint8_t> bytes) {
        for (const auto& range : parts_of(*job.compared, {start, start + bytes.size()}))
            for (auto at = range.start; at < range.end; at += image_page) {
                const auto before = job.earlier->hash_of(at);
                if (before != 0) ++compared_;
                if (before == 0 || page_hash(bytes.subspan(at - start, image_page)) == before) continue;
                return fail(
                    "{}: the kernel says that nobody has written to the page at {:#x} since the last "
                    "checkpoint, and it has changed",
                    job.label, at);
            }
        return {};
    }

    enum class Where { nowhere, here, earlier };
    // Where a page is to be found, and its page_hash().
    struct Seen {
        Where where = Where::here;
        EarlierImages::Page earlier{};
        std::uint64_t hash = 0;

        // Whether this one lies where the page `distance` pages before it lies, as far behind it.
        [[nodiscard]] bool follows(const Seen& first, std::size_t distance) const {
            return where == first.where && (where != Where::earlier ||
                                            (earlier.image == first.earlier.image &&
                                             earlier.offset == first.earlier.offset + distance * image_page));
        }
    };

    static std::vector<Seen> look_at(const StoreJob& job, ProgramAddress start,
                                     std::span<const std::uint8_t> bytes) {
        const bool keep_zeros = job.area->kind == schema::AreaKind::file_private;
        std::vector<Seen> pages(bytes.size() / image_page);
        for (std::size_t i = 0; i < pages.size(); ++i) {
            const auto page = bytes.subspan(i * image_page, image_page);
            if (!keep_zeros && all_zero(page.data())) {
                pages[i].where = Where::nowhere;
                continue;
            }
            pages[i].hash = page_hash(page);
            if (job.earlier == nullptr) continue;
            if (const auto found = job.earlier->find(start + i * image_page, pages[i].hash))
                pages[i] = {Where::earlier, *found, pages[i].hash};
        }
        return pages;
    }

    static std::vector<std::uint64_t> hashes_of(std::span<const Seen> pages) {
        std::vector<std::uint64_t> hashes;
        for (const auto& page : pages) hashes.push_back(page.hash);
        return hashes;
    }

    struct OwnRun {
        ProgramAddress at;
        std::span<const std::uint8_t> bytes;
        std::span<const Seen> pages;
    };

    // Side by side in the image, by one call.
    Result<> write_runs(const StoreJob& job, const std::vector<OwnRun>& runs) {
        std::uint64_t all = 0;
        for (const auto& run : runs) all += run.bytes.size();
        if (all == 0) return {};
        const auto begin = job.writer->reserve(all);
        auto offset = begin;
        std::vector<schema::PageRun> stored;
        std::vector<iovec> parts;
        for (const auto& run : runs) {
            const auto hashes = hashes_of(run.pages);
            stored.push_back({run.at, run.bytes.size(), offset, run_hash(hashes)});
            // writev(2) changes nothing of it.
            parts.push_back({const_cast<std::uint8_t*>(run.bytes.data()), run.bytes.size()});
            job.hashes->put(offset, hashes);
            offset += run.bytes.size();
        }
        CHECK_OK(job.writer->write_at(begin, parts));
        const std::scoped_lock lock(mutex_);
        auto& pages = job.area->pages;
        pages.insert(pages.end(), stored.begin(), stored.end());
        return {};
    }

    std::vector<StoreJob>& jobs_;
    Reporter& reporter_;
    std::atomic<std::size_t> next_ = 0;
    std::atomic<std::uint64_t> done_;
    std::uint64_t total_;
    std::atomic<bool> failed_ = false;
    std::atomic<std::uint64_t> compared_ = 0;  // pages
    std::mutex mutex_;
    Error error_;
};

}  // namespace

void name_unchanged(const PageRanges& unchanged, std::vector<StoreJob>& jobs, std::size_t first) {
    const bool checks = compares_unchanged();
    std::vector<StoreJob> rest;
    for (std::size_t i = first; i < jobs.size(); ++i) {
        auto& job = jobs[i];
        if (job.earlier == nullptr || job.lender) {
            rest.push_back(std::move(job));
            continue;
        }
        if (checks) {
            job.compared = &unchanged;
            rest.push_back(std::move(job));
            continue;
        }
        PageRanges named;
        for (const auto& range : parts_of(unchanged, job.range))
            for (const auto& part : job.earlier->parts_in(range)) {
                job.earlier->use(part.image);
                add_borrowed(*job.area, {job.process, job.earlier->name(part.image), part.run});
                named.push_back({part.run.at, part.run.at + part.run.length});
            }
        for (const auto& range : without({job.range}, named)) {
            rest.push_back(job);
            rest.back().range = range;
        }
    }
    jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(first), jobs.end());
    std::ranges::move(rest, std::back_inserter(jobs));
}

Result<> store_pages(std::vector<StoreJob> jobs, Reporter& reporter, std::uint64_t already,
                     std::uint64_t total) {
    Store store(jobs, reporter, already, total);
    {
        const auto help = [&store] { store.work(false); };
        const auto other = helper_threads(1, help);
        store.work(true);
    }
    auto result = store.result();
    if (!result) return result;
    if (store.compared() > 0)
        reporter.note(fmt::format("{} pages are unchanged, as the kernel says", store.compared()));
    std::vector<schema::Area*> areas;
    for (const auto& job : jobs)
        if (areas.empty() || areas.back() != job.area) areas.push_back(job.area);
    for (auto* area : areas) {
        std::ranges::sort(area->pages, {}, &schema::PageRun::at);
        if (!area->borrowed) continue;
        for (auto& part : *area->borrowed) std::ranges::sort(part.pages, {}, &schema::PageRun::at);
    }
    return {};
}

}  // namespace cairn::capture
