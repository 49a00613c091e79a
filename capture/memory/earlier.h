// Pages that an earlier generation of the checkpoint has stored, and that are what they were: the new image
// names them, and has a link to the image that has them (docs/decisions/0033-only-what-changed.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/image/page_hashes.h"
#include "common/image/reader.h"
#include "common/schema/manifest.h"
#include "common/schema/process.h"

namespace cairn::capture {

// The images of one process that earlier generations have written.
class EarlierImages {
  public:
    // Those that the newest generation has pages in, in its folder `previous`. Links to them are made in
    // `directory`. Who is too small, wasn't saved there, or can't be linked (another file system) has none:
    // then all is stored, and that is no error.
    EarlierImages(int directory, const std::string& previous, ProgramId process);
    EarlierImages(const EarlierImages&) = delete;
    EarlierImages& operator=(const EarlierImages&) = delete;

    struct Page {
        std::size_t image = 0;
        std::uint64_t offset = 0;  // in the file
    };
    // Where a page with this page_hash() is stored that was at this address.
    [[nodiscard]] std::optional<Page> find(ProgramAddress address, std::uint64_t hash) const;

    // The checksum that the page at this address had in the newest generation; 0: it isn't known.
    [[nodiscard]] std::uint64_t hash_of(ProgramAddress address) const;

    // Pages side by side that the newest generation has, in their place there.
    struct Part {
        std::size_t image = 0;
        schema::PageRun run;
    };
    // What is known of the pages of this range, in order of addresses; each part is no longer than a page
    // run.
    [[nodiscard]] std::vector<Part> parts_in(ProgramRange range) const;
    // At most so many of the pages of this range that are known, spread over it.
    [[nodiscard]] std::vector<ProgramAddress> sample(ProgramRange range, std::size_t most) const;

    [[nodiscard]] bool empty() const { return images_.empty(); }
    // The id of the newest generation's own image; 0: there is none that can be used.
    [[nodiscard]] std::uint64_t newest_id() const { return newest_id_; }
    [[nodiscard]] const std::string& name(std::size_t image) const { return images_[image].name; }
    // That image is needed. Thread-safe.
    void use(std::size_t image) { images_[image].used = true; }

    // Removes the links that nobody needs, and tells the others.
    [[nodiscard]] std::vector<schema::ManifestEarlier> finish();

  private:
    struct Image {
        std::string name;  // in the new folder
        std::uint64_t bytes = 0;
        PageHashes hashes;
        std::atomic<bool> used = false;
    };
    struct Run {
        ProgramAddress at;
        std::uint64_t length = 0, offset = 0;
        std::size_t image = 0;
    };
    // Its pages are stored in so many bytes of this file of the previous generation.
    struct Candidate {
        std::string file;
        std::uint64_t needed = 0;
        std::vector<schema::PageRun> runs;
    };
    void add(const std::string& previous, const Candidate& candidate, bool newest);
    [[nodiscard]] std::vector<Run>::const_iterator first_run_in(ProgramRange range) const;

    int directory_;
    ProgramId process_;
    std::uint64_t newest_id_ = 0;
    std::deque<Image> images_;
    std::vector<Run> runs_;  // in order of addresses
};

}  // namespace cairn::capture
