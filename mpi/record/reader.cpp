#include "mpi/record/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace cairn::mpi {
namespace {

constexpr std::uint32_t most_segment = 64U << 20;

Result<> read_at(int fd, void* into, std::size_t size, std::uint64_t offset) {
    auto* to = static_cast<std::uint8_t*>(into);
    while (size > 0) {
        const ssize_t n = ::pread(fd, to, size, static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("reading");
        if (n == 0) return fail_code(ExitCode::damaged, "it is cut off at byte {}", offset);
        to += n;
        size -= static_cast<std::size_t>(n);
        offset += static_cast<std::uint64_t>(n);
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<RecordReader>> RecordReader::open(const std::string& folder, int rank) {
    std::unique_ptr<RecordReader> reader(new RecordReader);
    reader->path_ = record_path(folder, rank);
    reader->fd_.reset(::open(reader->path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!reader->fd_) return fail_errno("opening {}", reader->path_);
    struct stat status {};
    if (::fstat(reader->fd_.get(), &status) != 0) return fail_errno("{}", reader->path_);
    const auto size = static_cast<std::uint64_t>(status.st_size);
    reader->file_bytes_ = size;
    std::string begin(std::min<std::uint64_t>(size, 64U << 10), '\0');
    if (auto done = read_at(reader->fd_.get(), begin.data(), begin.size(), 0); !done)
        return std::unexpected(std::move(done.error()).in(reader->path_));
    std::size_t used = 0;
    auto identity = decode_header(begin, used);
    if (!identity) return std::unexpected(std::move(identity.error()).in(reader->path_));
    reader->identity_ = *identity;
    if (identity->rank != rank)
        return fail_code(ExitCode::damaged, "{}: it is the record of rank {}", reader->path_, identity->rank);
    const std::string tail = tail_path(folder, rank);
    const bool tail_there = ::access(tail.c_str(), F_OK) == 0;
    if (auto done = reader->read_blocks(used, size, tail_there); !done)
        return std::unexpected(std::move(done.error()).in(reader->path_));
    if (!reader->closed_)
        if (auto done = reader->read_tail(tail); !done)
            return std::unexpected(std::move(done.error()).in(tail));
    return reader;
}

Result<> RecordReader::read_blocks(std::uint64_t offset, std::uint64_t size, bool tail_there) {
    std::vector<std::uint8_t> payload;
    while (offset < size) {
        BlockHeader header;
        const bool whole_header = size - offset >= sizeof header;
        if (whole_header) CHECK_OK(read_at(fd_.get(), &header, sizeof header, offset));
        const bool sound = whole_header && header.magic == block_magic &&
                           hash_of(&header, sizeof header - sizeof header.checksum) == header.checksum;
        if (!sound || size - offset - sizeof header < header.bytes) {
            // The program was killed, or the disk was full, while it wrote its last block: the tail has it.
            if (tail_there && (!whole_header || sound)) return {};
            if (!sound && whole_header)
                return fail_code(ExitCode::damaged, "the block at byte {} is damaged", offset);
            return fail_code(ExitCode::damaged, "it is cut off at byte {}: block {} isn't whole", size,
                             blocks_);
        }
        if (header.number != blocks_ || closed_)
            return fail_code(ExitCode::damaged, "at byte {} is block {} in place of {}", offset,
                             header.number, blocks_);
        payload.resize(header.bytes);
        CHECK_OK(read_at(fd_.get(), payload.data(), payload.size(), offset + sizeof header));
        if (hash_of(payload.data(), payload.size()) != header.payload_checksum)
            return fail_code(ExitCode::damaged, "block {} at byte {} is damaged: the checksum doesn't match",
                             blocks_, offset);
        for (std::size_t at = 0; at < payload.size();) {
            SegmentHeader segment;
            if (payload.size() - at < sizeof segment)
                return fail_code(ExitCode::damaged, "block {} makes no sense", blocks_);
            std::memcpy(&segment, payload.data() + at, sizeof segment);
            at += sizeof segment;
            if (segment.column >= columns || payload.size() - at < segment.bytes ||
                segment.length > most_segment)
                return fail_code(ExitCode::damaged, "block {} makes no sense", blocks_);
            Stream& stream = streams_[segment.column];
            stream.segments.push_back({offset + sizeof header + at, segment});
            stream.packed += segment.bytes + sizeof segment;
            at += segment.bytes;
        }
        offset += sizeof header + header.bytes;
        begun_ = done_ = header.events;
        closed_ = (header.flags & last_block) != 0;
        ++blocks_;
    }
    return {};
}

Result<> RecordReader::read_tail(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno == ENOENT)
        return fail_code(ExitCode::damaged, "it is missing, and {} is cut off after block {}: it has no end",
                         path_, blocks_);
    if (!fd) return fail_errno("opening it");
    TailHeader header;
    CHECK_OK(read_at(fd.get(), &header, sizeof header, 0));
    if (header.magic != tail_magic) return fail_code(ExitCode::damaged, "it is no tail of a record");
    if (header.job != identity_.job) return fail_code(ExitCode::damaged, "it belongs to another record");
    if (header.generation > blocks_)
        return fail_code(ExitCode::damaged, "{} is cut off: it has {} blocks of {}", path_, blocks_,
                         header.generation);
    begun_ = header.begun;
    done_ = header.done;
    remarks_.push_back(header.stopped != 0 ? fmt::format("recording was given up at event {}", done_)
                                           : fmt::format("the program was killed at event {}", begun_));
    if (header.generation < blocks_) return {};  // it was killed right after it wrote the block
    open_falses_ = header.falses;
    std::uint64_t at = tail_header_room;
    for (std::size_t i = 0; i < columns; ++i) {
        const std::uint32_t room = room_of(static_cast<Column>(i), identity_.contents);
        if (header.used[i] > room) return fail_code(ExitCode::damaged, "it is damaged: column {}", i);
        streams_[i].tail.resize(header.used[i]);
        streams_[i].packed += header.used[i];
        CHECK_OK(read_at(fd.get(), streams_[i].tail.data(), header.used[i], at));
        at += room;
    }
    return {};
}

bool RecordReader::fill(Stream& stream) {
    stream.at = 0;
    stream.bytes.clear();
    while (stream.next_segment < stream.segments.size()) {
        const Segment& segment = stream.segments[stream.next_segment++];
        std::vector<std::uint8_t> packed(segment.header.bytes);
        if (!read_at(fd_.get(), packed.data(), packed.size(), segment.offset)) return false;
        if (segment.header.compressed == 0) {
            stream.bytes = std::move(packed);
        } else {
            stream.bytes.resize(segment.header.length);
            const std::size_t got =
                ZSTD_decompress(stream.bytes.data(), stream.bytes.size(), packed.data(), packed.size());
            if (ZSTD_isError(got) != 0 || got != segment.header.length) return false;
        }
        if (!stream.bytes.empty()) return true;
    }
    if (stream.tail_taken || stream.tail.empty()) return false;
    stream.tail_taken = true;
    stream.bytes = stream.tail;
    return true;
}

std::optional<std::uint8_t> RecordReader::byte(Stream& stream) {
    if (stream.at == stream.bytes.size() && !fill(stream)) return std::nullopt;
    return stream.bytes[stream.at++];
}

std::optional<std::uint64_t> RecordReader::next(Column column) {
    Stream& stream = streams_[static_cast<std::size_t>(column)];
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const auto part = byte(stream);
        if (!part) return std::nullopt;
        value |= std::uint64_t{*part & 0x7fU} << shift;
        if (*part < 0x80) return value;
    }
    return std::nullopt;
}

std::optional<std::string> RecordReader::next_bytes(Column column) {
    const auto size = next(column);
    if (!size) return std::nullopt;
    Stream& stream = streams_[static_cast<std::size_t>(column)];
    std::string bytes;
    while (bytes.size() < *size) {
        if (stream.at == stream.bytes.size() && !fill(stream)) return std::nullopt;
        const std::size_t part = std::min<std::size_t>(*size - bytes.size(), stream.bytes.size() - stream.at);
        bytes.append(reinterpret_cast<const char*>(stream.bytes.data()) + stream.at, part);
        stream.at += part;
    }
    return bytes;
}

}  // namespace cairn::mpi
