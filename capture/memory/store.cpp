#include "capture/memory/store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
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
        while (!failed_.load()) {
            const auto batch = next_batch();
            if (batch.empty()) return;
            if (auto done = store(batch, hands); !done) {
                const std::scoped_lock lock(mutex_);
                if (!failed_.exchange(true)) error_ = std::move(done.error());
                return;
            }
            done_ += length_of(batch);
            if (!reports) continue;
            const auto label = batch.back().label;
            reporter_.progress(done_, total_, std::string(label));
            if (auto fine =
                    reporter_.may_go_on([&] { return fmt::format("writing the image of {}", label); });
                !fine) {
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
    static constexpr std::uint64_t most_at_once = 1 << 20;

    // Those that are looked at one by one: their pages are compared with others.
    static bool is_compared(const StoreJob& job) { return job.lender || job.compared != nullptr; }
    // Those whose contents are read into the same memory again and again.
    static bool is_alone(const StoreJob& job) { return is_compared(job) && job.still == nullptr; }

    static std::uint64_t length_of(std::span<const StoreJob> jobs) {
        std::uint64_t all = 0;
        for (const auto& job : jobs) all += job.range.length();
        return all;
    }

    // What is written by one call: a single page costs as much as some hundreds of kilobytes. Empty: there is
    // no more.
    std::span<StoreJob> next_batch() {
        const std::scoped_lock lock(mutex_);
        const auto begin = next_;
        if (begin == jobs_.size()) return {};
        const auto& first = jobs_[begin];
        std::uint64_t bytes = first.range.length();
        const auto fits = [&](const StoreJob& job) {
            return job.writer == first.writer && !is_alone(job) && bytes + job.range.length() <= most_at_once;
        };
        for (++next_; !is_alone(first) && next_ < jobs_.size() && fits(jobs_[next_]); ++next_)
            bytes += jobs_[next_].range.length();
        return std::span(jobs_).subspan(begin, next_ - begin);
    }

    // A run of a lender's that is longer than the job that it is compared for, and which the next jobs may be
    // compared for as well.
    struct LendersRun {
        pid_t source = 0;
        ProgramAddress at{0};
        std::vector<std::uint8_t> bytes;
        bool as_stored = false;
    };

    // What one thread reads with: of the process that is stored, and of who lends it pages. What is open
    // stays so for all pieces of one process, since opening costs more than most of them.
    struct Hands {
        std::unique_ptr<std::uint8_t[]> buffer = make_room(), lenders{};
        ptrace::ForcedReader mine, theirs;
        LendersRun run;
        std::optional<PageMap> my_map, their_map;

        static PageMap& map_of(pid_t pid, std::optional<PageMap>& open) {
            if (!open || open->pid() != pid) open.emplace(pid);
            return *open;
        }

        // Of memory that nobody has touched: what isn't used needn't be found.
        static std::unique_ptr<std::uint8_t[]> make_room() {
            return std::make_unique_for_overwrite<std::uint8_t[]>(most_at_once);
        }
        std::span<std::uint8_t> room() { return {buffer.get(), most_at_once}; }
        std::span<std::uint8_t> lenders_room() {
            if (lenders == nullptr) lenders = make_room();
            return {lenders.get(), most_at_once};
        }
    };

    static Result<> read(pid_t source, ptrace::ForcedReader& by, const StoreJob& job,
                         std::span<std::uint8_t> to) {
        return read_pages(source, by, job.range.start, (job.area->prot & 1) != 0, to);
    }

    // What is read is put in front in `room`, and this is the rest then.
    static Result<std::span<const std::uint8_t>> contents(const StoreJob& job, ptrace::ForcedReader& by,
                                                          std::span<std::uint8_t>& room) {
        if (job.still != nullptr) return job.still->at(job.range);
        const auto bytes = room.first(job.range.length());
        room = room.subspan(bytes.size());
        CHECK_OK(read(job.source, by, job, bytes));
        return bytes;
    }

    // Pages that are to be written, and to stay where they are until they are.
    struct OwnRun {
        StoreJob* job;
        ProgramAddress at;
        std::span<const std::uint8_t> bytes;
        std::vector<std::uint64_t> hashes;  // page_hash() of each
    };
    using OwnRuns = std::vector<OwnRun>;

    Result<> store(std::span<StoreJob> batch, Hands& hands) {
        OwnRuns own;
        auto room = hands.room();
        for (auto& job : batch) {
            if (is_compared(job)) {
                CHECK_OK(compare(job, hands, own));
                continue;
            }
            const auto bytes = TRY(contents(job, hands.mine, room));
            sort(job, job.range.start, bytes, own);
        }
        return write_runs(own);
    }

    Result<> compare(StoreJob& job, Hands& hands, OwnRuns& own) {
        if (job.lender && job.lender->still == nullptr && job.still == nullptr)
            if (const auto all = same_pages(*job.lender, Hands::map_of(job.lender->source, hands.their_map),
                                            Hands::map_of(job.source, hands.my_map), job.range)) {
                const std::scoped_lock lock(mutex_);
                for (const auto& each : *all) add_borrowed(*job.area, each);
                return {};
            }
        auto room = hands.room();
        const auto bytes = TRY(contents(job, hands.mine, room));
        if (!job.lender) return sort_compared(job, job.range.start, bytes, own);
        const auto others = hands.lenders_room().first(job.range.length());
        // What the lender hasn't mapped in the same way is none of its pages. Of what wasn't copied of it
        // nothing is stored, so it isn't taken for the lender's whatever `others` has there.
        if (job.lender->still != nullptr)
            job.lender->still->copy(job.range, others);
        else if (!read(job.lender->source, hands.theirs, job, others))
            return sort_compared(job, job.range.start, bytes, own);
        // Pieces of one run come one after the other: it is looked at once.
        std::optional<schema::PageRun> seen;
        bool unchanged = false;
        for (const auto& piece : compare_pages(*job.lender, job.range, bytes, others)) {
            const auto part = bytes.subspan(piece.range.start - job.range.start, piece.range.length());
            if (piece.stored && (!seen || seen->at != piece.stored->run.at)) {
                seen = piece.stored->run;
                unchanged = is_unchanged(job, *seen, others, hands);
            }
            if (!piece.stored || !unchanged) {
                CHECK_OK(sort_compared(job, piece.range.start, part, own));
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

    static void look_at_run(const Lender& lender, const schema::PageRun& run, Hands& hands) {
        auto& known = hands.run;
        if (known.source == lender.source && known.at == run.at && known.bytes.size() == run.length) return;
        known.source = lender.source;
        known.at = run.at;
        known.bytes.resize(run.length);
        known.as_stored =
            hands.theirs.read(lender.source, run.at, std::as_writable_bytes(std::span(known.bytes)))
                .has_value() &&
            still_as_stored(run, {run.at, run.at + run.length}, known.bytes);
    }

    // Whether the run that the lender has stored is what it was compared by, all of it.
    static bool is_unchanged(const StoreJob& job, const schema::PageRun& run,
                             std::span<const std::uint8_t> theirs, Hands& hands) {
        if (job.lender->still != nullptr) return true;
        if (job.range.start <= run.at && run.at + run.length <= job.range.end)
            return still_as_stored(run, job.range, theirs);
        look_at_run(*job.lender, run, hands);
        // What is in both was the same when it was compared.
        const auto start = std::max(run.at, job.range.start),
                   end = std::min(run.at + run.length, job.range.end);
        return hands.run.as_stored && std::memcmp(&hands.run.bytes[start - run.at],
                                                  &theirs[start - job.range.start], end - start) == 0;
    }

    Result<> sort_compared(StoreJob& job, ProgramAddress start, std::span<const std::uint8_t> bytes,
                           OwnRuns& own) {
        if (job.compared != nullptr) CHECK_OK(compare_unchanged(job, start, bytes));
        sort(job, start, bytes, own);
        return {};
    }

    // What no other process has: but for zeros, and for what an earlier generation has.
    void sort(StoreJob& job, ProgramAddress start, std::span<const std::uint8_t> bytes, OwnRuns& own) {
        const auto pages = look_at(job, start, bytes);
        for (std::size_t first = 0; first < pages.size();) {
            const auto& page = pages[first];
            std::size_t end = first + 1;
            while (end < pages.size() && pages[end].follows(page, end - first)) ++end;
            const auto part = bytes.subspan(first * image_page, (end - first) * image_page);
            const auto at = start + first * image_page;
            if (page.where == Where::here) {
                own.push_back({&job, at, part, hashes_of(std::span(pages).subspan(first, end - first))});
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

    // Side by side in the image, by one call. All have one image.
    Result<> write_runs(const OwnRuns& runs) {
        if (runs.empty()) return {};
        std::uint64_t all = 0;
        for (const auto& run : runs) all += run.bytes.size();
        auto& writer = *runs.front().job->writer;
        const auto begin = writer.reserve(all);
        std::vector<iovec> parts;
        std::vector<schema::PageRun> stored;
        for (auto offset = begin; const auto& run : runs) {
            // writev(2) changes nothing of it.
            parts.push_back({const_cast<std::uint8_t*>(run.bytes.data()), run.bytes.size()});
            stored.push_back({run.at, run.bytes.size(), offset, run_hash(run.hashes)});
            run.job->hashes->put(offset, run.hashes);
            offset += run.bytes.size();
        }
        CHECK_OK(writer.write_at(begin, parts));
        const std::scoped_lock lock(mutex_);
        for (std::size_t i = 0; i < runs.size(); ++i) runs[i].job->area->pages.push_back(stored[i]);
        return {};
    }

    std::vector<StoreJob>& jobs_;
    Reporter& reporter_;
    std::size_t next_ = 0;
    std::atomic<std::uint64_t> done_;
    std::uint64_t total_;
    std::atomic<bool> failed_ = false;
    std::atomic<std::uint64_t> compared_ = 0;  // pages
    std::mutex mutex_;
    Error error_;
};

}  // namespace

bool compares_unchanged() {
    const char* value = std::getenv("CAIRN_TRACK_CHECK");
    return value != nullptr && std::string_view(value) == "1";
}

void name_unchanged(const PageRanges& unchanged, std::vector<StoreJob>& jobs, std::size_t first) {
    const bool checks = compares_unchanged();
    std::vector<StoreJob> rest;
    for (std::size_t i = first; i < jobs.size(); ++i) {
        auto& job = jobs[i];
        if (job.earlier == nullptr) {
            rest.push_back(job);
            continue;
        }
        if (checks) {
            job.compared = &unchanged;
            rest.push_back(job);
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
