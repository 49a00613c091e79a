#include "restart/rebuild/page_sources.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>

#include "common/helper_threads.h"
#include "common/image/format.h"
#include "common/image/reader.h"

namespace cairn::restart {
namespace {

Result<> put(int memory, const restorer::Run& run, std::span<const std::uint8_t> bytes) {
    for (auto at = run.address; !bytes.empty();) {
        const ssize_t done = ::pwrite(memory, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return fail_errno("writing pages to {:#x}", at);
        bytes = bytes.subspan(static_cast<std::size_t>(done));
        at += static_cast<std::uint64_t>(done);
    }
    return {};
}

class Filling {
  public:
    Filling(const std::vector<ServedRun>& runs, const std::vector<OpenPages>& images, int memory)
        : runs_(runs), images_(images), memory_(memory) {}

    void work() {
        std::vector<PageReader> readers;
        for (const auto& image : images_) readers.emplace_back(image.data);
        std::vector<std::uint8_t> buffer(image_max_run);
        for (std::size_t i; !failed_.load() && (i = next_.fetch_add(1)) < runs_.size();)
            if (auto done = bring(runs_[i], readers[runs_[i].image], buffer); !done) {
                const std::scoped_lock lock(mutex_);
                if (!failed_.exchange(true)) error_ = std::move(done.error());
            }
    }

    [[nodiscard]] Result<> result() {
        if (error_) return std::unexpected(*std::move(error_));
        return {};
    }

  private:
    Result<> bring(const ServedRun& run, PageReader& from, std::span<std::uint8_t> buffer) const {
        const auto bytes = buffer.first(run.length);
        CHECK_OK(from.read_run(schema::PageRun{ProgramAddress(run.address), run.length, run.offset, run.hash},
                               bytes));
        return put(memory_, run, bytes);
    }

    const std::vector<ServedRun>& runs_;
    const std::vector<OpenPages>& images_;
    int memory_;
    std::atomic<std::size_t> next_ = 0;
    std::atomic<bool> failed_ = false;
    std::mutex mutex_;
    std::optional<Error> error_;
};

}  // namespace

Result<std::shared_ptr<const ChunkTable>> OtherImages::chunks_of(const std::string& name) {
    if (const auto known = known_.find(name); known != known_.end()) return known->second;
    const auto path = computation_.directory + "/" + name;
    const auto ours = std::ranges::find(computation_.images, path, &ImageReader::path);
    auto& chunks = known_[name];
    if (ours != computation_.images.end()) {
        chunks = ours->page_data().chunks;
    } else if (says_compressed(path)) {
        chunks = TRY(ImageReader::open(path)).page_data().chunks;
    }
    return chunks;
}

Result<> find_page_sources(const ImageReader& own, OtherImages& others, Rebuilding& rebuilding) {
    auto& sources = rebuilding.page_sources;
    sources.assign(1, {-1, own.path(), own.page_data().chunks});
    for (const auto& name : rebuilding.memory.others) {
        auto chunks = TRY(others.chunks_of(name));
        sources.push_back({-1, rebuilding.folder + "/" + name, std::move(chunks)});
    }
    leave_to_tool(sources, rebuilding.memory);
    return {};
}

Result<OpenPages> open_pages(const Rebuilding& rebuilding, std::uint32_t image) {
    auto data = rebuilding.page_sources.at(image);
    Fd file(::open(data.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return fail_errno("image {}", data.path);
    data.fd = file.get();
    return OpenPages{std::move(file), std::move(data)};
}

Result<> write_pages(const Rebuilding& rebuilding) {
    const auto& plan = rebuilding.memory;
    std::vector<OpenPages> images(rebuilding.page_sources.size());
    for (const auto& run : plan.written_runs)
        if (!images[run.image].file) images[run.image] = TRY(open_pages(rebuilding, run.image));
    // /proc/PID/mem takes what is mapped read-only as well.
    const Fd memory(::open(fmt::format("/proc/{}/mem", rebuilding.pid).c_str(), O_RDWR | O_CLOEXEC));
    if (!memory) return fail_errno("memory of process {}", rebuilding.process->pid);
    Filling filling(plan.written_runs, images, memory.get());
    {
        const auto help = [&filling] { filling.work(); };
        const auto others = helper_threads(plan.writers - 1, help);
        filling.work();
    }
    if (auto done = filling.result(); !done)
        return std::unexpected(
            std::move(done.error()).in(fmt::format("process {}", rebuilding.process->pid)));
    return {};
}

}  // namespace cairn::restart
