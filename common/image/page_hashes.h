// The checksum of every single page in an image: by it the next checkpoint sees what hasn't changed.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "common/image/format.h"
#include "common/schema/process.h"

namespace cairn {

class PageHashes {
  public:
    // By what a section says; of a length that isn't whole the rest is left out.
    void replace_by(std::span<const std::uint8_t> section);

    // Of the pages from this offset in the file on, a multiple of a page. Thread-safe.
    void put(std::uint64_t offset, std::span<const std::uint64_t> hashes);

    // Of the page at this offset; 0: it isn't known.
    [[nodiscard]] std::uint64_t at(std::uint64_t offset) const;

    // Of so many pages from this offset on; those that aren't in the list are left out.
    [[nodiscard]] std::span<const std::uint64_t> from(std::uint64_t offset, std::uint64_t pages) const;

    [[nodiscard]] bool empty() const { return hashes_.empty(); }
    [[nodiscard]] schema::Bytes to_section() const;

  private:
    std::mutex mutex_;
    std::vector<std::uint64_t> hashes_;  // of the page at image_page * (1 + index)
};

// XXH3-64 of a page; never 0, which stands for "not known".
[[nodiscard]] std::uint64_t page_hash(std::span<const std::uint8_t> page);

// The hash of a page run: XXH3-64 of the page_hash() of each of its pages, so that it is known of pages that
// nobody has read again.
[[nodiscard]] std::uint64_t run_hash(std::span<const std::uint64_t> hashes_of_pages);
[[nodiscard]] std::uint64_t run_hash(std::span<const std::uint8_t> pages);
// Whether a run of these pages may have this hash: the one above, or that of the bytes, as images before
// version 6 have it.
[[nodiscard]] bool is_run_hash(std::uint64_t hash, std::span<const std::uint8_t> pages);

}  // namespace cairn
