#include "mpi/record/writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace cairn::mpi {
namespace {

constexpr int level = 3, level_of_contents = 1;

// Floating-point numbers hardly ever compress, and trying takes ten times as long as writing them. A piece in
// the middle tells; it is worth it where an eighth is saved.
bool is_worth_compressing(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t piece = 32U << 10;
    if (size < 4 * piece) return true;
    std::vector<std::uint8_t> out(ZSTD_compressBound(piece));
    const std::size_t bytes =
        ZSTD_compress(out.data(), out.size(), data + (size - piece) / 2, piece, level_of_contents);
    return ZSTD_isError(bytes) != 0 || bytes < piece - piece / 8;
}

Result<> write_all(int fd, const std::uint8_t* data, std::size_t size) {
    while (size > 0) {
        const ssize_t n = ::write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("writing");
        data += n;
        size -= static_cast<std::size_t>(n);
    }
    return {};
}

// posix_fallocate is interrupted by signals.
int allocate(int fd, off_t size) {
    int failed = EINTR;
    for (int tries = 0; failed == EINTR && tries < 100; ++tries) failed = ::posix_fallocate(fd, 0, size);
    return failed;
}

}  // namespace

Result<std::unique_ptr<RecordWriter>> RecordWriter::create(const std::string& folder,
                                                           const Identity& identity) {
    std::unique_ptr<RecordWriter> writer(new RecordWriter);
    writer->path_ = record_path(folder, identity.rank);
    writer->tail_path_ = tail_path(folder, identity.rank);
    writer->fd_.reset(
        ::open(writer->path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!writer->fd_) return fail_errno("creating {}", writer->path_);
    const Fd tail(::open(writer->tail_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!tail) return fail_errno("creating {}", writer->tail_path_);

    std::size_t bytes = tail_header_room;
    for (std::size_t i = 0; i < columns; ++i) bytes += room_of(static_cast<Column>(i), identity.contents);
    // A store to a page that the disk has no room for would kill the program.
    if (const int failed = allocate(tail.get(), static_cast<off_t>(bytes)); failed != 0) {
        ::unlink(writer->tail_path_.c_str());
        ::unlink(writer->path_.c_str());
        return fail("making room in {}: {}", writer->tail_path_, std::strerror(failed));
    }
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, tail.get(), 0);
    if (mapped == MAP_FAILED) return fail_errno("mapping {}", writer->tail_path_);
    void* own = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) {
        ::munmap(mapped, bytes);
        return fail_errno("memory for {}", writer->tail_path_);
    }
    writer->tail_ = static_cast<TailHeader*>(own);
    writer->mapped_ = reinterpret_cast<std::uintptr_t>(mapped) - reinterpret_cast<std::uintptr_t>(own);
    writer->tail_bytes_ = bytes;
    auto* at = static_cast<std::uint8_t*>(own) + tail_header_room;
    for (std::size_t i = 0; i < columns; ++i) {
        const std::uint32_t size = room_of(static_cast<Column>(i), identity.contents);
        writer->rooms_[i] = {at, size};
        at += size;
    }
    writer->set(writer->tail_->job, identity.job);
    const std::string header = encode_header(identity);
    if (auto done =
            write_all(writer->fd_.get(), reinterpret_cast<const std::uint8_t*>(header.data()), header.size());
        !done) {
        ::unlink(writer->tail_path_.c_str());
        ::unlink(writer->path_.c_str());
        return std::unexpected(std::move(done.error()).in(writer->path_));
    }
    writer->bytes_ = header.size();
    std::atomic_signal_fence(std::memory_order_release);
    writer->set(writer->tail_->magic, tail_magic);
    return writer;
}

RecordWriter::~RecordWriter() {
    if (tail_ == nullptr) return;
    unmap();
    ::munmap(tail_, tail_bytes_);
}

void RecordWriter::unmap() {
    if (mapped_ != 0) ::munmap(&in_file(*tail_), tail_bytes_);
    mapped_ = 0;
}

void RecordWriter::go_back() {
    if (mapped_ == 0) return;
    // In this order: a reader leaves a tail that doesn't fit the blocks.
    static_cast<void>(!::ftruncate(fd_.get(), static_cast<off_t>(bytes_)));
    std::memcpy(&in_file(*tail_), tail_, tail_bytes_);
}

void RecordWriter::forget() {
    if (tail_ == nullptr) return;
    // The child may still go through code that counts: in its own memory.
    unmap();
    failure_ = "a child of the recorded process";
    fd_.reset();
}

void RecordWriter::give_up(std::string why) {
    failure_ = std::move(why);
    set(tail_->stopped, std::uint32_t{1});
    // What was put so far stays in the tail for its reader; what comes goes nowhere.
    unmap();
}

void RecordWriter::put_bytes(Column column, const void* data, std::size_t size) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    put(column, size);
    const auto i = static_cast<std::size_t>(column);
    while (size > 0) {
        if (rooms_[i].size == tail_->used[i]) flush();
        const std::size_t part = std::min<std::size_t>(size, rooms_[i].size - tail_->used[i]);
        std::uint8_t* into = rooms_[i].begin + tail_->used[i];
        std::memcpy(into, from, part);
        if (mapped_ != 0) std::memcpy(&in_file(*into), from, part);
        std::atomic_signal_fence(std::memory_order_release);
        set(tail_->used[i], tail_->used[i] + static_cast<std::uint32_t>(part));
        from += part;
        size -= part;
    }
}

void RecordWriter::flush(std::uint32_t flags) {
    if (!failure_.empty()) {
        for (auto& used : tail_->used) set(used, std::uint32_t{0});
        return;
    }
    packed_.resize(sizeof(BlockHeader));
    for (std::size_t i = 0; i < columns; ++i) {
        const std::uint32_t used = tail_->used[i];
        if (used == 0) continue;
        SegmentHeader segment{static_cast<std::uint8_t>(i), 1, 0, 0, used};
        const std::size_t begin = packed_.size();
        packed_.resize(begin + sizeof segment + ZSTD_compressBound(used));
        std::uint8_t* out = packed_.data() + begin + sizeof segment;
        const bool contents = static_cast<Column>(i) == Column::content;
        std::size_t bytes = used;
        if (!contents || is_worth_compressing(rooms_[i].begin, used))
            bytes = ZSTD_compress(out, ZSTD_compressBound(used), rooms_[i].begin, used,
                                  contents ? level_of_contents : level);
        if (ZSTD_isError(bytes) != 0 || bytes >= used) {
            segment.compressed = 0;
            bytes = used;
            std::memcpy(out, rooms_[i].begin, used);
        }
        segment.bytes = static_cast<std::uint32_t>(bytes);
        std::memcpy(packed_.data() + begin, &segment, sizeof segment);
        packed_.resize(begin + sizeof segment + bytes);
    }
    BlockHeader header;
    header.number = blocks_;
    header.events = tail_->begun;
    header.flags = flags;
    header.bytes = static_cast<std::uint32_t>(packed_.size() - sizeof header);
    header.payload_checksum = hash_of(packed_.data() + sizeof header, header.bytes);
    header.checksum = hash_of(&header, sizeof header - sizeof header.checksum);
    std::memcpy(packed_.data(), &header, sizeof header);
    // Restarted behind the end of the program, whose tail is made again as it was.
    struct stat file {};
    if (::fstat(fd_.get(), &file) == 0 && file.st_size > static_cast<off_t>(bytes_))
        static_cast<void>(!::ftruncate(fd_.get(), static_cast<off_t>(bytes_)));
    if (auto done = write_all(fd_.get(), packed_.data(), packed_.size()); !done) {
        give_up(path_ + ": " + done.error().what);
        for (auto& used : tail_->used) set(used, std::uint32_t{0});
        return;
    }
    ++blocks_;
    bytes_ += packed_.size();
    // Killed before the last store: the reader sees that there is a block more than the tail knows of, and
    // leaves the tail.
    for (auto& used : tail_->used) set(used, std::uint32_t{0});
    std::atomic_signal_fence(std::memory_order_release);
    set(tail_->generation, blocks_);
}

void RecordWriter::close() {
    if (tail_->hits > 0) unexpected();
    if (tail_->falses > 0) yes();
    flush(last_block);
    if (failure_.empty()) ::unlink(tail_path_.c_str());
}

}  // namespace cairn::mpi
