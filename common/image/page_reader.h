// Reads page data of an image, plain or compressed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/image/chunks.h"

namespace cairn {

class ImageReader;

// Where the page data of an open image is.
struct PageData {
    int fd = -1;                               // somebody else's, who keeps it open
    std::string path;                          // for messages
    std::shared_ptr<const ChunkTable> chunks;  // null: the pages are plain
};

// Keeps the chunk that it has decompressed last: each thread has a reader of its own.
class PageReader {
  public:
    explicit PageReader(PageData data) : data_(std::move(data)) {}
    // As long as the reader has its descriptor.
    explicit PageReader(const ImageReader& reader);

    // The bytes at this offset, as page runs name it. Errors: ExitCode::damaged where the image was cut, or a
    // chunk can't be decompressed; errno of pread(2). No checksum is compared.
    [[nodiscard]] Result<> read(std::uint64_t offset, std::span<std::uint8_t> to);
    // The bytes of a run, whose checksum is compared: ExitCode::damaged naming file, address and offset.
    template <class Place>
    [[nodiscard]] Result<> read_run(const schema::RunOf<Place>& run, std::span<std::uint8_t> to);

  private:
    [[nodiscard]] Result<> read_plain(std::uint64_t at, std::span<std::uint8_t> to) const;
    [[nodiscard]] Result<> load(const ImageChunk& chunk, std::span<std::uint8_t> to);

    PageData data_;
    const ImageChunk* loaded_ = nullptr;
    std::vector<std::uint8_t> stored_, plain_;
};

}  // namespace cairn
