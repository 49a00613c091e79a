// Compares the checksums of a whole image with its bytes.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>

#include "common/helper_threads.h"
#include "common/image/hash.h"
#include "common/image/reader.h"

namespace cairn {
namespace {

template <class Place>
Result<> verify_run(const ImageReader& reader, const schema::RunOf<Place>& run,
                    std::span<std::uint8_t> buffer) {
    CHECK_OK(reader.check_run(run));
    std::size_t have = 0;
    while (have < run.length) {
        const ssize_t count = ::pread(reader.fd(), buffer.data() + have, run.length - have,
                                      static_cast<off_t>(run.offset + have));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail_errno("reading image {} at byte {}", reader.path(), run.offset + have);
        if (count == 0)
            return fail_code(ExitCode::damaged, "image {} was cut while it was read", reader.path());
        have += static_cast<std::size_t>(count);
    }
    if (hash64(buffer.first(run.length)) != run.hash)
        return fail_code(
            ExitCode::damaged,
            "image {}: pages for address {:#x} ({} bytes at byte {}) are damaged (checksum): take another "
            "generation, or a copy of this file",
            reader.path(), run.at, run.length, run.offset);
    return {};
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
        for (std::size_t i; !stop.load() && (i = next.fetch_add(1)) < runs.size();)
            if (auto good = verify_run(reader, runs[i], buffer); !good) {
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
