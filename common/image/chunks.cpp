#include "common/image/chunks.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "common/image/format.h"

namespace cairn {
namespace {

struct FreeCompressor {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct FreeDecompressor {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// 0: it can't be compressed so.
std::size_t compress_into(std::span<std::uint8_t> to, std::span<const std::uint8_t> plain, Compression how) {
    if (how.codec == Codec::lz4) {
        const int size = LZ4_compress_default(reinterpret_cast<const char*>(plain.data()),
                                              reinterpret_cast<char*>(to.data()),
                                              static_cast<int>(plain.size()), static_cast<int>(to.size()));
        return static_cast<std::size_t>(std::max(size, 0));
    }
    // A context is some 100 KiB to several MiB, by the level, and worth keeping.
    thread_local const std::unique_ptr<ZSTD_CCtx, FreeCompressor> context(ZSTD_createCCtx());
    if (!context) return 0;
    const auto size =
        ZSTD_compressCCtx(context.get(), to.data(), to.size(), plain.data(), plain.size(), how.level);
    return ZSTD_isError(size) != 0 ? 0 : size;
}

Result<> check_chunk(const ImageChunk& chunk, std::uint64_t end, std::uint64_t data_end) {
    const bool whole_pages = (chunk.offset | chunk.length) % image_page == 0;
    if (!whole_pages || chunk.offset < end || chunk.length == 0 || chunk.length > image_max_chunk)
        return fail("the chunk for offset {} ({} bytes) isn't of whole pages, or out of order", chunk.offset,
                    chunk.length);
    const bool known = chunk.codec == Codec::none ? chunk.stored == chunk.length
                                                  : chunk.codec == Codec::lz4 || chunk.codec == Codec::zstd;
    if (!known || chunk.stored == 0 || chunk.stored > chunk.length)
        return fail("the chunk for offset {} is compressed in an unknown way ({})", chunk.offset,
                    static_cast<std::uint32_t>(chunk.codec));
    if (chunk.at < image_page || chunk.at > data_end || chunk.stored > data_end - chunk.at)
        return fail("the chunk for offset {} lies outside of the page data", chunk.offset);
    return {};
}

}  // namespace

Result<ChunkTable> ChunkTable::parse(std::span<const std::uint8_t> section, std::uint64_t data_end) {
    if (section.size() % sizeof(ImageChunk) != 0) return fail("it isn't of whole entries");
    ChunkTable table;
    table.chunks_.resize(section.size() / sizeof(ImageChunk));
    if (!section.empty()) std::memcpy(table.chunks_.data(), section.data(), section.size());
    std::uint64_t end = image_page;
    for (const auto& chunk : table.chunks_) {
        CHECK_OK(check_chunk(chunk, end, data_end));
        end = chunk.offset + chunk.length;
    }
    return table;
}

schema::Bytes ChunkTable::to_section(std::vector<ImageChunk> chunks) {
    std::ranges::sort(chunks, {}, &ImageChunk::offset);
    schema::Bytes bytes(chunks.size() * sizeof(ImageChunk));
    if (!chunks.empty()) std::memcpy(bytes.data(), chunks.data(), bytes.size());
    return bytes;
}

const ImageChunk* ChunkTable::find(std::uint64_t offset) const {
    const auto behind = std::ranges::upper_bound(chunks_, offset, {}, &ImageChunk::offset);
    if (behind == chunks_.begin()) return nullptr;
    const auto& chunk = *std::prev(behind);
    return offset - chunk.offset < chunk.length ? &chunk : nullptr;
}

std::uint64_t ChunkTable::end() const {
    return chunks_.empty() ? image_page : chunks_.back().offset + chunks_.back().length;
}

Compressed compress(std::span<const std::uint8_t> plain, Compression how) {
    if (how.codec == Codec::none || plain.empty()) return {Codec::none, plain};
    thread_local std::vector<std::uint8_t> buffer;
    // More isn't worth it, and who doesn't get it done in this room is soon through.
    buffer.resize(plain.size() - plain.size() / 16);
    const auto size = compress_into(buffer, plain, how);
    if (size == 0) return {Codec::none, plain};
    return {how.codec, std::span(buffer).first(size)};
}

bool decompress(Codec codec, std::span<const std::uint8_t> stored, std::span<std::uint8_t> to) {
    switch (codec) {
        case Codec::none:
            if (stored.size() != to.size()) return false;
            std::memcpy(to.data(), stored.data(), to.size());
            return true;
        case Codec::lz4:
            return LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()),
                                       reinterpret_cast<char*>(to.data()), static_cast<int>(stored.size()),
                                       static_cast<int>(to.size())) == static_cast<int>(to.size());
        case Codec::zstd: {
            thread_local const std::unique_ptr<ZSTD_DCtx, FreeDecompressor> context(ZSTD_createDCtx());
            return context && ZSTD_decompressDCtx(context.get(), to.data(), to.size(), stored.data(),
                                                  stored.size()) == to.size();
        }
    }
    return false;
}

}  // namespace cairn
