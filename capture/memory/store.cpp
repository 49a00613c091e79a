#include "capture/memory/store.h"

#include <algorithm>
#include <cstring>

#include "common/helper_threads.h"
#include "common/image/hash.h"

namespace cairn::capture {
namespace {

bool all_zero(const std::uint8_t* data) {
    std::uint64_t first = 0;
    std::memcpy(&first, data, sizeof first);
    return first == 0 && std::memcmp(data, data + sizeof first, image_page - sizeof first) == 0;
}

class Store {
  public:
    Store(std::vector<StoreJob>& jobs, Reporter& reporter, std::uint64_t already, std::uint64_t total)
        : jobs_(jobs), reporter_(reporter), done_(already), total_(total) {}

    void work(bool reports) {
        std::vector<std::uint8_t> buffer(1 << 20), lenders(1 << 20);
        for (;;) {
            const auto index = next_.fetch_add(1);
            if (index >= jobs_.size() || failed_.load()) return;
            StoreJob& job = jobs_[index];
            if (auto done = store(job, buffer, lenders); !done) {
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

    [[nodiscard]] Result<> result() {
        if (failed_.load()) return std::unexpected(std::move(error_));
        return {};
    }

  private:
    // By /proc/PID/mem. process_vm_readv(2) pins what it reads, and since Linux 5.19 a page that is shared by
    // a fork is copied before it is pinned (gup_must_unshare() in mm/gup.c): reading a copy-on-write child
    // would take as much memory again, and twice the time. It is for kernels that let nobody read by the
    // file.
    static Result<> read(pid_t source, const StoreJob& job, std::span<std::uint8_t> to) {
        auto done = ptrace::read_memory_forced(source, job.range.start, std::as_writable_bytes(to));
        const bool readable = (job.area->prot & 1) != 0;
        if (!done && readable)
            done = ptrace::read_memory(source, job.range.start, std::as_writable_bytes(to));
        return done;
    }

    Result<> store(StoreJob& job, std::vector<std::uint8_t>& buffer, std::vector<std::uint8_t>& lenders) {
        if (job.lender)
            if (const auto all = same_pages(*job.lender, job.source, job.range)) {
                const std::scoped_lock lock(mutex_);
                for (const auto& each : *all) add_borrowed(*job.area, each.from, each.run);
                return {};
            }
        const auto bytes = std::span(buffer).first(job.range.length());
        CHECK_OK(read(job.source, job, bytes));
        if (!job.lender) return store_own(job, job.range.start, bytes);
        const auto others = std::span(lenders).first(job.range.length());
        // What the lender hasn't mapped in the same way is none of its pages.
        if (!read(job.lender->source, job, others)) return store_own(job, job.range.start, bytes);
        for (const auto& piece : compare_pages(*job.lender, job.range, bytes, others)) {
            const auto part = bytes.subspan(piece.range.start - job.range.start, piece.range.length());
            if (!piece.stored) {
                CHECK_OK(store_own(job, piece.range.start, part));
                continue;
            }
            const auto& run = piece.stored->run;
            const auto hash = piece.whole ? run.hash : hash64(part);
            const std::scoped_lock lock(mutex_);
            add_borrowed(*job.area, piece.stored->from,
                         {piece.range.start, part.size(), run.offset + (piece.range.start - run.at), hash});
        }
        return {};
    }

    Result<> store_own(const StoreJob& job, ProgramAddress start, std::span<const std::uint8_t> bytes) {
        const bool keep_zeros = job.area->kind == schema::AreaKind::file_private;
        for (std::size_t begin = 0; begin < bytes.size();) {
            if (!keep_zeros && all_zero(&bytes[begin])) {
                begin += image_page;
                continue;
            }
            std::size_t end = begin + image_page;
            while (end < bytes.size() && (keep_zeros || !all_zero(&bytes[end]))) end += image_page;
            const auto part = bytes.subspan(begin, end - begin);
            schema::PageRun run;
            run.at = start + begin;
            run.length = part.size();
            run.offset = job.writer->reserve(part.size());
            run.hash = hash64(part);
            CHECK_OK(job.writer->write_at(run.offset, part));
            const std::scoped_lock lock(mutex_);
            job.area->pages.push_back(run);
            begin = end;
        }
        return {};
    }

    std::vector<StoreJob>& jobs_;
    Reporter& reporter_;
    std::atomic<std::size_t> next_ = 0;
    std::atomic<std::uint64_t> done_;
    std::uint64_t total_;
    std::atomic<bool> failed_ = false;
    std::mutex mutex_;
    Error error_;
};

}  // namespace

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
