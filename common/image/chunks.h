// Compressed page data. Page runs and everything else that names pages of an image goes on to name them by
// the offset that they would have in an image of plain pages; a table says where the chunk with that offset
// is in the file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/compression.h"
#include "common/error.h"
#include "common/schema/process.h"

namespace cairn {

// Plain bytes of one chunk at most: who wants one page has to decompress all of its chunk.
inline constexpr std::uint64_t image_max_chunk = std::uint64_t{256} << 10;

struct ImageChunk {
    std::uint64_t offset = 0;  // of its first page, as page runs name it; a multiple of a page
    std::uint64_t at = 0;      // in the file, a byte
    std::uint32_t length = 0;  // plain, bytes, whole pages
    std::uint32_t stored = 0;  // in the file, bytes
    Codec codec = Codec::none;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(ImageChunk) == 32);

class ChunkTable {
  public:
    // Of section CHNK. `data_end`: no chunk lies behind it in the file. Errors: what is wrong, without the
    // image's name.
    [[nodiscard]] static Result<ChunkTable> parse(std::span<const std::uint8_t> section,
                                                  std::uint64_t data_end);
    // In any order.
    [[nodiscard]] static schema::Bytes to_section(std::vector<ImageChunk> chunks);

    // The chunk that has the page at this offset. Null: none has it.
    [[nodiscard]] const ImageChunk* find(std::uint64_t offset) const;
    // Behind the last page, as page runs count.
    [[nodiscard]] std::uint64_t end() const;

  private:
    std::vector<ImageChunk> chunks_;
};

// What is to be written for `plain`: the compressed bytes, which belong to the calling thread and last until
// its next call, or `plain` itself with Codec::none where less than a sixteenth would be won.
struct Compressed {
    Codec codec = Codec::none;
    std::span<const std::uint8_t> bytes;
};
[[nodiscard]] Compressed compress(std::span<const std::uint8_t> plain, Compression how);

// False: these are no bytes of this codec, or not so many.
[[nodiscard]] bool decompress(Codec codec, std::span<const std::uint8_t> stored, std::span<std::uint8_t> to);

}  // namespace cairn
