// Reads one image file, and believes nothing of it before it has been checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/image/format.h"
#include "common/image/page_reader.h"
#include "common/schema/process.h"

namespace cairn {

class ImageReader {
  public:
    struct Section {
        SectionType type;
        std::uint64_t offset;
        schema::Bytes data;
    };

    // A link in the place of the file isn't followed. Checks header, footer, section table and every
    // section's checksum; page data isn't read (verify_pages). Errors: ExitCode::damaged for what is no
    // image, is cut, damaged, of another version or architecture, each with the file, the part and what to
    // do; ExitCode::failed with errno where the file can't be read.
    [[nodiscard]] static Result<ImageReader> open(const std::string& path);

    // Errors: ExitCode::damaged if the image is of another kind.
    [[nodiscard]] Result<> expect(ImageKind kind) const;

    // The first of this type. Errors: ExitCode::damaged if there is none. Valid as long as the reader.
    [[nodiscard]] Result<std::span<const std::uint8_t>> section(SectionType type) const;

    // ExitCode::damaged unless the run is page-aligned, of 1 byte to 1 MiB, and within the page data.
    template <class Place>
    [[nodiscard]] Result<> check_run(const schema::RunOf<Place>& run) const;

    // For a PageReader, as long as this one isn't parked; or by a descriptor from open_again().
    [[nodiscard]] PageData page_data() const { return page_data(fd_.get()); }
    [[nodiscard]] PageData page_data(int opened_again) const { return {opened_again, path_, chunks_}; }
    [[nodiscard]] bool compressed() const { return chunks_ != nullptr; }
    // Gives the descriptor back: for who has more images than descriptors.
    void park() { fd_.reset(); }
    // The file once more. An error if it is another one by now, or was changed.
    [[nodiscard]] Result<Fd> open_again() const;
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] ImageKind kind() const { return header_.kind; }
    [[nodiscard]] std::uint64_t id() const { return header_.id; }  // random
    [[nodiscard]] std::uint64_t file_size() const { return footer_.file_size; }
    // Of page data, when it isn't compressed.
    [[nodiscard]] std::uint64_t page_bytes() const { return pages_end() - image_page; }
    [[nodiscard]] const std::vector<Section>& sections() const { return sections_; }

  private:
    ImageReader(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
    [[nodiscard]] Result<> read_at(std::uint64_t offset, std::span<std::uint8_t> to) const;
    [[nodiscard]] Result<> read_header(std::uint64_t size);
    [[nodiscard]] Result<> read_footer(std::uint64_t size);
    [[nodiscard]] Result<> read_sections();
    [[nodiscard]] Result<> read_chunks();
    // Behind the last page, as page runs count.
    [[nodiscard]] std::uint64_t pages_end() const { return chunks_ ? chunks_->end() : footer_.data_end; }

    Fd fd_;
    std::string path_;
    std::uint64_t device_ = 0, inode_ = 0;
    std::int64_t changed_ns_ = 0;
    ImageHeader header_;
    ImageFooter footer_;
    std::vector<Section> sections_;
    std::shared_ptr<const ChunkTable> chunks_;  // null: the pages are plain
};

// By its header alone; false as well for what is no image, which shows when it is read.
[[nodiscard]] bool says_compressed(const std::string& path);

// Reads every run and compares its checksum, `threads` at a time. 1 GiB in the page cache: see
// docs/image-format.md. Errors: ExitCode::damaged naming file, offset and address.
template <class Place>
[[nodiscard]] Result<> verify_pages(const ImageReader& reader, const std::vector<schema::RunOf<Place>>& runs,
                                    unsigned threads = 2);

// Runs come in order and don't overlap, each within [start, end) and the file's page data.
template <class Place>
[[nodiscard]] Result<> check_runs(const ImageReader& reader, const std::vector<schema::RunOf<Place>>& runs,
                                  Place start, Place end);

struct ProcessImage {
    ImageReader reader;
    schema::Process process;
};

// Open, decode, and check what a restart relies on: areas and runs are page-aligned, in order and within
// bounds. Errors: as ImageReader::open.
[[nodiscard]] Result<ProcessImage> open_process_image(const std::string& path);

}  // namespace cairn
