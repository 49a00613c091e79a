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
    reader->tail_path_ = tail_path(folder, rank);
    CHECK_OK(reader->begin_behind(folder, used));
    CHECK_OK(reader->read_all());
    return reader;
}

// Where the blocks begin.
Result<> RecordReader::begin_behind(const std::string& folder, std::uint64_t header) {
    header_ = end_ = header;
    const Beginnings beginnings = TRY(read_beginnings(folder));
    if (beginnings.ranks.empty()) return {};
    if (beginnings.job != identity_.job ||
        beginnings.ranks.size() != static_cast<std::size_t>(identity_.size))
        return fail_code(ExitCode::damaged, "{} is of another record than {}", beginnings_path(folder),
                         path_);
    const Beginning& mine = beginnings.ranks[static_cast<std::size_t>(identity_.rank)];
    if (mine.offset <= header) return {};
    // A job that is restarted from an older checkpoint writes its record again from there on.
    std::uint8_t before[64] = {};
    const std::uint64_t length = std::min<std::uint64_t>(sizeof before, mine.offset - header);
    if (file_bytes_ < mine.offset || !read_at(fd_.get(), before, length, mine.offset - length) ||
        (mine.removed && std::any_of(before, before + length, [](std::uint8_t byte) { return byte != 0; })))
        return fail_code(ExitCode::damaged,
                         "{} has gone back behind byte {}, at which it begins since its first part has been "
                         "removed: was the job restarted from an older checkpoint?",
                         path_, mine.offset);
    beginning_ = mine;
    remarks_.push_back(fmt::format("what was received before event {} has been removed", mine.event));
    end_ = mine.offset;
    blocks_ = mine.block;
    begun_ = done_ = mine.event;
    return {};
}

Result<> RecordReader::read_all() {
    constexpr int most = 100;  // blocks that are written while it reads
    for (int times = 0;; ++times) {
        const bool tail_there = ::access(tail_path_.c_str(), F_OK) == 0;
        if (auto done = read_blocks(file_bytes_, tail_there); !done)
            return std::unexpected(std::move(done.error()).in(path_));
        if (closed_) return {};
        const auto whole = read_tail(tail_path_);
        if (whole && *whole) return {};
        // The program may have written a block just then, or have ended.
        struct stat status {};
        if (::fstat(fd_.get(), &status) != 0) return fail_errno("{}", path_);
        const auto size = static_cast<std::uint64_t>(status.st_size);
        if (size == file_bytes_ || times == most)
            return whole ? Result<>(fail_code(ExitCode::damaged,
                                              "{}: {} is cut off: it has {} blocks, and "
                                              "there were more",
                                              tail_path_, path_, blocks_))
                         : std::unexpected(Error(whole.error()).in(tail_path_));
        file_bytes_ = size;
    }
}

Result<> RecordReader::read_blocks(std::uint64_t size, bool tail_there) {
    std::uint64_t& offset = end_;
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
            stream.segments.push_back({offset + sizeof header + at, blocks_, segment});
            stream.packed += segment.bytes + sizeof segment;
            at += segment.bytes;
        }
        written_.push_back({offset, header.events});
        offset += sizeof header + header.bytes;
        begun_ = done_ = header.events;
        closed_ = (header.flags & last_block) != 0;
        ++blocks_;
    }
    return {};
}

Result<bool> RecordReader::read_tail(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno == ENOENT)
        return fail_code(ExitCode::damaged, "it is missing, and {} is cut off after block {}: it has no end",
                         path_, blocks_);
    if (!fd) return fail_errno("opening it");
    TailHeader header;
    CHECK_OK(read_at(fd.get(), &header, sizeof header, 0));
    if (header.magic != tail_magic) return fail_code(ExitCode::damaged, "it is no tail of a record");
    if (header.job != identity_.job) return fail_code(ExitCode::damaged, "it belongs to another record");
    if (header.generation > blocks_) return false;
    begun_ = header.begun;
    done_ = header.done;
    tail_hash_ = hash_of(&header, sizeof header);
    const std::string ends = header.stopped != 0 ? fmt::format("recording was given up at event {}", done_)
                                                 : fmt::format("the program was killed at event {}", begun_);
    if (header.generation < blocks_) {  // it was killed right after it wrote the block
        remarks_.push_back(ends);
        return true;
    }
    std::vector<std::uint8_t> tails[columns];
    std::uint64_t at = tail_header_room;
    for (std::size_t i = 0; i < columns; ++i) {
        const std::uint32_t room = room_of(static_cast<Column>(i), identity_.contents);
        if (header.used[i] > room) return fail_code(ExitCode::damaged, "it is damaged: column {}", i);
        tails[i].resize(header.used[i]);
        CHECK_OK(read_at(fd.get(), tails[i].data(), header.used[i], at));
        at += room;
    }
    // Of a program that runs: what was read is whole, unless it has gone into a block meanwhile.
    TailHeader now;
    CHECK_OK(read_at(fd.get(), &now, sizeof now, 0));
    if (now.generation != header.generation) return false;
    remarks_.push_back(ends);
    open_falses_ = header.falses;
    for (std::size_t i = 0; i < columns; ++i) {
        streams_[i].packed += header.used[i];
        streams_[i].tail = std::move(tails[i]);
    }
    return true;
}

RecordReader::BlockPlace RecordReader::first_block_behind(std::uint64_t calls) const {
    const auto first = blocks_ - static_cast<std::uint32_t>(written_.size());
    // A block that was written within a call may have but the first part of what belongs to it.
    for (std::size_t i = 0; i < written_.size(); ++i)
        if (written_[i].events >= calls) return {written_[i].offset, first + static_cast<std::uint32_t>(i)};
    return {end_, blocks_};
}

bool RecordReader::has_grown() const {
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) != file_bytes_)
        return true;
    if (closed_) return false;
    TailHeader header;
    const Fd fd(::open(tail_path_.c_str(), O_RDONLY | O_CLOEXEC));
    return !fd || !read_at(fd.get(), &header, sizeof header, 0) ||
           hash_of(&header, sizeof header) != tail_hash_;
}

Result<> RecordReader::go_on_as(const RecordReader& earlier) {
    const auto anew = [&] {
        return fail_code(ExitCode::damaged, "{} isn't the record any more that it was at event {}", path_,
                         earlier.begun_);
    };
    if (identity_.job != earlier.identity_.job || blocks_ < earlier.blocks_) return anew();
    for (std::size_t i = 0; i < columns; ++i) {
        Stream& stream = streams_[i];
        const Stream& before = earlier.streams_[i];
        if (before.next_segment == 0 && !before.tail_taken) continue;
        // What was in the tail is in the next block now, or still there.
        const std::uint32_t block =
            before.tail_taken ? earlier.blocks_ : before.segments[before.next_segment - 1].block;
        while (stream.next_segment < stream.segments.size() &&
               stream.segments[stream.next_segment].block < block)
            ++stream.next_segment;
        const bool in_block = stream.next_segment < stream.segments.size() &&
                              stream.segments[stream.next_segment].block == block;
        const bool in_tail = block == blocks_ && !stream.tail.empty();
        if (!in_block && !in_tail) {
            // All of that block was read, and it has been removed; else something is missing.
            if (before.at != before.bytes.size() || before.tail_taken) return anew();
            continue;
        }
        if (!fill(stream) || stream.bytes.size() < before.at ||
            !std::equal(before.bytes.begin(), before.bytes.begin() + static_cast<std::ptrdiff_t>(before.at),
                        stream.bytes.begin()))
            return anew();
        stream.at = before.at;
    }
    return {};
}

// At the end it stays where it is: a later reader goes on there.
bool RecordReader::fill(Stream& stream) {
    std::vector<std::uint8_t> bytes;
    while (bytes.empty() && stream.next_segment < stream.segments.size()) {
        const Segment& segment = stream.segments[stream.next_segment++];
        std::vector<std::uint8_t> packed(segment.header.bytes);
        if (!read_at(fd_.get(), packed.data(), packed.size(), segment.offset)) return false;
        if (segment.header.compressed == 0) {
            bytes = std::move(packed);
            continue;
        }
        bytes.resize(segment.header.length);
        const std::size_t got = ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size());
        if (ZSTD_isError(got) != 0 || got != segment.header.length) return false;
    }
    if (bytes.empty()) {
        if (stream.tail_taken || stream.tail.empty()) return false;
        stream.tail_taken = true;
        bytes = stream.tail;
    }
    stream.bytes = std::move(bytes);
    stream.at = 0;
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
