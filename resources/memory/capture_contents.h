// The contents of one inode in the objects image. They may be written before anybody stands still: then each
// page's checksum is kept, and in the pause only what has changed since is written once more, in its place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "common/image/writer.h"
#include "resources/memory/capture_sight.h"
#include "resources/schema/object.h"

namespace cairn::capture {

class InodeContents {
  public:
    // `again`: this is written before the pause, and will be brought up to date. The image isn't compressed
    // then: what is rewritten has the place that it had.
    InodeContents(ImageWriter& writer, bool again) : writer_(writer), again_(again) {}

    // The inode's pages can be looked at from now on.
    void see(std::unique_ptr<Sight> sight) { sight_ = std::move(sight); }
    [[nodiscard]] bool is_seen() const { return sight_ != nullptr; }

    // put() wherever an offset is a multiple of so many bytes separately: then is_unchanged() finds much.
    [[nodiscard]] std::uint64_t block() const { return again_ ? small_block : image_max_run; }

    // Whether these pages are what put() has stored of them, all by one call. Then nothing has to be read.
    // Holes are not asked about. Thread-safe.
    [[nodiscard]] bool is_unchanged(std::uint64_t offset, std::uint64_t bytes,
                                    std::vector<schema::ObjectRun>* runs);

    // The inode has these bytes at `offset`, a page's begin. The last page may be short, and is stored with
    // zeros after it; pages of zeros are left out where nothing else was stored there. `runs`: where each of
    // its pages is in the image now is added to them; null: nobody asks yet. Thread-safe, if no two threads
    // put the same page.
    [[nodiscard]] Result<> put(std::uint64_t offset, std::span<const std::uint8_t> data,
                               std::vector<schema::ObjectRun>* runs);

    // Bytes that put() has written to the image so far.
    [[nodiscard]] std::uint64_t written() const { return written_; }

  private:
    // A run has a checksum of its own: where one page of it has changed, all of it is read again.
    static constexpr std::uint64_t small_block = 64 << 10;

    struct Run {
        schema::ObjectRun run;
        bool hash_known = true;
        std::vector<std::uint64_t> pages;  // page_hash() of each
    };
    using Runs = std::vector<schema::ObjectRun>;

    [[nodiscard]] Result<> put_block(std::uint64_t offset, std::span<const std::uint8_t> data, Runs* runs);
    [[nodiscard]] Result<> bring_up(Run& known, std::uint64_t offset, std::span<const std::uint8_t> data,
                                    Runs* runs);
    [[nodiscard]] Result<> put_new(std::uint64_t offset, std::span<const std::uint8_t> data, Runs* runs);
    [[nodiscard]] Result<> write(std::uint64_t offset, std::span<const std::uint8_t> data, Runs* runs);
    // Who has this page, or the first one behind it. Null: nobody.
    [[nodiscard]] Run* known_from(std::uint64_t offset);

    ImageWriter& writer_;
    bool again_;
    std::unique_ptr<Sight> sight_;
    std::mutex mutex_;  // of what follows, and of the runs that put() is given
    std::map<std::uint64_t, Run> known_;
    std::uint64_t written_ = 0;
};

}  // namespace cairn::capture
