#include "common/image/page_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>

#include "common/image/hash.h"
#include "common/image/page_hashes.h"
#include "common/image/reader.h"

namespace cairn {

PageReader::PageReader(const ImageReader& reader) : data_(reader.page_data()) {}

Result<> PageReader::read_plain(std::uint64_t at, std::span<std::uint8_t> to) const {
    while (!to.empty()) {
        const ssize_t count = ::pread(data_.fd, to.data(), to.size(), static_cast<off_t>(at));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail_errno("reading image {} at byte {}", data_.path, at);
        if (count == 0) return fail_code(ExitCode::damaged, "image {} was cut while it was read", data_.path);
        to = to.subspan(static_cast<std::size_t>(count));
        at += static_cast<std::uint64_t>(count);
    }
    return {};
}

Result<> PageReader::load(const ImageChunk& chunk, std::span<std::uint8_t> to) {
    if (chunk.codec == Codec::none) return read_plain(chunk.at, to);
    stored_.resize(chunk.stored);
    CHECK_OK(read_plain(chunk.at, stored_));
    if (decompress(chunk.codec, stored_, to)) return {};
    return fail_code(ExitCode::damaged,
                     "image {}: {} compressed bytes at byte {} are damaged: take another generation, or a "
                     "copy of this file",
                     data_.path, chunk.stored, chunk.at);
}

Result<> PageReader::read(std::uint64_t offset, std::span<std::uint8_t> to) {
    if (!data_.chunks) return read_plain(offset, to);
    while (!to.empty()) {
        const auto* chunk = data_.chunks->find(offset);
        if (chunk == nullptr)
            return fail_code(ExitCode::damaged, "image {} has no pages at offset {}", data_.path, offset);
        const auto skip = offset - chunk->offset;
        const auto some = std::min<std::uint64_t>(to.size(), chunk->length - skip);
        if (some == chunk->length) {
            CHECK_OK(load(*chunk, to.first(some)));
        } else if (chunk->codec == Codec::none) {
            CHECK_OK(read_plain(chunk->at + skip, to.first(some)));
        } else {
            if (loaded_ != chunk) {
                loaded_ = nullptr;
                plain_.resize(chunk->length);
                CHECK_OK(load(*chunk, plain_));
                loaded_ = chunk;
            }
            std::ranges::copy(std::span(plain_).subspan(skip, some), to.begin());
        }
        to = to.subspan(some);
        offset += some;
    }
    return {};
}

template <class Place>
Result<> PageReader::read_run(const schema::RunOf<Place>& run, std::span<std::uint8_t> to) {
    CHECK_OK(read(run.offset, to.first(run.length)));
    const auto bytes = to.first(run.length);
    // Objects' runs needn't be whole pages, and are of version 4 always.
    const bool right =
        std::is_same_v<Place, ProgramAddress> ? is_run_hash(run.hash, bytes) : hash64(bytes) == run.hash;
    if (right) return {};
    return fail_code(
        ExitCode::damaged,
        "image {}: pages for address {:#x} ({} bytes at offset {}) are damaged (checksum): take another "
        "generation, or a copy of this file",
        data_.path, run.at, run.length, run.offset);
}

template Result<> PageReader::read_run(const schema::PageRun&, std::span<std::uint8_t>);
template Result<> PageReader::read_run(const schema::ObjectRun&, std::span<std::uint8_t>);

}  // namespace cairn
