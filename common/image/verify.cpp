// Compares the checksums of a whole image with its bytes.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "common/helper_threads.h"
#include "common/image/reader.h"

namespace cairn {
namespace {

template <class Place>
Result<> verify_run(const ImageReader& reader, const schema::RunOf<Place>& run, PageReader& pages,
                    std::span<std::uint8_t> buffer) {
    CHECK_OK(reader.check_run(run));
    return pages.read_run(run, buffer);
}

}  // namespace

template <class Place>
Result<> verify_pages(const ImageReader& reader, const std::vector<schema::RunOf<Place>>& runs,
                      unsigned threads) {
    std::atomic<std::size_t> next = 0;
    std::atomic<bool> stop = false;
    std::mutex lock;
    std::optional<Error> first;
    const auto work = [&] {
        schema::Bytes buffer(image_max_run);
        PageReader pages(reader);
        for (std::size_t i; !stop.load() && (i = next.fetch_add(1)) < runs.size();)
            if (auto good = verify_run(reader, runs[i], pages, buffer); !good) {
                stop = true;
                const std::lock_guard hold(lock);
                if (!first) first = std::move(good).error();
            }
    };
    {
        const auto useful = std::min<std::size_t>(threads, runs.size());
        const auto helpers = helper_threads(useful > 0 ? useful - 1 : 0, work);
        work();
    }
    if (first) return std::unexpected(*std::move(first));
    return {};
}

template Result<> verify_pages(const ImageReader&, const std::vector<schema::PageRun>&, unsigned);
template Result<> verify_pages(const ImageReader&, const std::vector<schema::ObjectRun>&, unsigned);

}  // namespace cairn
