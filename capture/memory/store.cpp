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
        std::vector<std::uint8_t> buffer(1 << 20);
        for (;;) {
            const auto index = next_.fetch_add(1);
            if (index >= jobs_.size() || failed_.load()) return;
            StoreJob& job = jobs_[index];
            if (auto done = store(job, buffer); !done) {
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
    Result<> store(StoreJob& job, std::vector<std::uint8_t>& buffer) {
        const auto length = job.range.length();
        const auto bytes = std::span(buffer).first(length);
        const bool readable = (job.area->prot & 1) != 0;
        auto done = readable ? ptrace::read_memory(job.source, job.range.start, std::as_writable_bytes(bytes))
                             : Result<>(fail("not readable"));
        if (!done)
            done = ptrace::read_memory_forced(job.source, job.range.start, std::as_writable_bytes(bytes));
        if (!done) return done;
        const bool keep_zeros = job.area->kind == schema::AreaKind::file_private;
        for (std::size_t begin = 0; begin < length;) {
            if (!keep_zeros && all_zero(&buffer[begin])) {
                begin += image_page;
                continue;
            }
            std::size_t end = begin + image_page;
            while (end < length && (keep_zeros || !all_zero(&buffer[end]))) end += image_page;
            const auto part = bytes.subspan(begin, end - begin);
            schema::PageRun run;
            run.at = job.range.start + begin;
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
    for (auto* area : areas) std::ranges::sort(area->pages, {}, &schema::PageRun::at);
    return {};
}

}  // namespace cairn::capture
