#include "causality/trace_writer.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>

#include "common/image/hash.h"

namespace cairn::causality {
namespace {

Result<> write_all(int fd, std::span<const std::uint8_t> data, const std::string& path) {
    while (!data.empty()) {
        const ssize_t n = ::write(fd, data.data(), data.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("writing the trace {}", path);
        data = data.subspan(static_cast<std::size_t>(n));
    }
    return {};
}

}  // namespace

TraceWriter::TraceWriter(Fd fd, std::string path, Process processes, std::size_t block_bytes)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      block_bytes_(std::min<std::size_t>(block_bytes, most_block_bytes / 2)),
      buffers_(processes) {}

Result<TraceWriter> TraceWriter::create(const std::string& path, Process processes, std::size_t block_bytes,
                                        Process tail_of) {
    if (processes == 0 || processes > most_processes)
        return fail("{}: a trace has 1 to {} processes, not {}", path, most_processes, processes);
    Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!fd) return fail_errno("creating the trace {}", path);
    TraceHeader header;
    header.processes = processes;
    if (::getrandom(&header.id, sizeof header.id, 0) != sizeof header.id) return fail_errno("getrandom");
    header.checksum = checksum_of(header);
    TraceWriter writer(std::move(fd), path, processes, block_bytes);
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(&header), sizeof header);
    CHECK_OK(write_all(writer.fd_.get(), bytes, path));
    writer.bytes_ = sizeof header;
    if (tail_of == none) return writer;
    // A block is written when an event has made it too large: there must be room for that one.
    constexpr std::size_t largest_event = 128;
    if (auto tail = TraceTail::create(writer.fd_.get(), tail_of, writer.block_bytes_ + largest_event)) {
        writer.tail_of_ = tail_of;
        writer.bytes_ += tail->bytes();
        writer.blocks_ = 1;
        writer.tail_.emplace(std::move(*tail));
    }
    return writer;
}

// Header and payload by one write: what a crash cuts is the last block, and nothing is behind it.
Result<> TraceWriter::write_block(BlockHeader header, std::span<const std::uint8_t> payload) {
    if (!failure_.empty()) return fail("{}", failure_);
    header.bytes = static_cast<std::uint32_t>(payload.size());
    header.payload_checksum = hash64(payload);
    header.checksum = checksum_of(header);
    scratch_.resize(sizeof header + payload.size());
    std::memcpy(scratch_.data(), &header, sizeof header);
    if (!payload.empty()) std::memcpy(scratch_.data() + sizeof header, payload.data(), payload.size());
    if (auto done = write_all(fd_.get(), scratch_, path_); !done) {
        failure_ = done.error().what;
        // What was written of the block goes, so that the file ends with a whole one.
        static_cast<void>(::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) == 0);
        return done;
    }
    bytes_ += scratch_.size();
    ++blocks_;
    return {};
}

Result<std::uint32_t> TraceWriter::place(const Place& place) {
    if (place == Place{}) return 0;
    const auto [found, is_new] = places_.try_emplace(place, static_cast<std::uint32_t>(places_.size() + 1));
    if (!is_new) return found->second;
    std::vector<std::uint8_t> payload;
    encode_place(payload, place);
    if (auto done = write_block({.type = BlockType::places, .count = 1, .first = found->second}, payload);
        !done) {
        places_.erase(found);
        return std::unexpected(done.error());
    }
    return found->second;
}

Result<std::uint32_t> TraceWriter::type(const std::string& name) {
    if (name.empty()) return 0;
    const auto [found, is_new] = types_.try_emplace(name, static_cast<std::uint32_t>(types_.size() + 1));
    if (!is_new) return found->second;
    std::vector<std::uint8_t> payload;
    encode_text(payload, name);
    if (auto done = write_block({.type = BlockType::types, .count = 1, .first = found->second}, payload);
        !done) {
        types_.erase(found);
        return std::unexpected(done.error());
    }
    return found->second;
}

Result<> TraceWriter::leak(const Leak& leak) {
    std::vector<std::uint8_t> payload;
    encode_leak(payload, leak);
    return write_block({.type = BlockType::leaks, .process = leak.process, .count = 1}, payload);
}

Result<> TraceWriter::standing(Process process, const Standing& standing) {
    if (process == tail_of_) {
        tail_->enter(standing.event, standing.requests, standing.any);
        return {};
    }
    std::vector<std::uint8_t> payload;
    encode_standing(payload, standing);
    return write_block({.type = BlockType::standing,
                        .process = process,
                        .count = static_cast<std::uint32_t>(standing.requests.size())},
                       payload);
}

Result<> TraceWriter::communicator(const Communicator& communicator) {
    std::vector<std::uint8_t> payload;
    encode_communicator(payload, communicator);
    return write_block({.type = BlockType::communicator,
                        .count = static_cast<std::uint32_t>(communicator.members.size()),
                        .first = communicator.id},
                       payload);
}

Result<> TraceWriter::append(Process process, const Event& event) {
    return append(process, event, false);
}

Result<> TraceWriter::append_open(Process process, const Event& event) {
    return append(process, event, true);
}

void TraceWriter::lasted(Process process, std::int64_t took) {
    Buffer& buffer = buffers_[process];
    if (!buffer.open) return;
    const auto end = std::span(buffer.payload).last(open_took_bytes);
    put_took(end, took);
    if (process == tail_of_) tail_->rewrite_end(end);
    buffer.open = false;
}

Result<> TraceWriter::append(Process process, const Event& event, bool open) {
    if (process >= buffers_.size()) return fail("{}: the trace has no process {}", path_, process);
    Buffer& buffer = buffers_[process];
    if (buffer.ended) return fail("{}: process {} has ended", path_, process);
    // An open event that has made it so large had to stay here.
    if (buffer.payload.size() >= block_bytes_ || buffer.count == most_block_events) CHECK_OK(flush(process));
    const std::size_t before = buffer.payload.size();
    if (open)
        buffer.coder.encode_open(buffer.payload, event);
    else
        buffer.coder.encode(buffer.payload, event);
    buffer.open = open;
    ++buffer.count;
    if (process == tail_of_) tail_->append(std::span(buffer.payload).subspan(before));
    if (!open && (buffer.payload.size() >= block_bytes_ || buffer.count == most_block_events))
        return flush(process);
    return {};
}

Result<> TraceWriter::flush(Process process) {
    Buffer& buffer = buffers_[process];
    if (buffer.count == 0) return {};
    auto done =
        write_block({.process = process, .count = buffer.count, .first = buffer.first}, buffer.payload);
    if (!done) return done;
    buffer.first += buffer.count;
    buffer.count = 0;
    buffer.payload.clear();
    buffer.coder = {};
    buffer.open = false;
    // A process that is killed before this has its events twice, which the reader sees by their position.
    if (process == tail_of_) tail_->restart(buffer.first);
    return {};
}

Result<> TraceWriter::flush() {
    for (Process process = 0; process < buffers_.size(); ++process) CHECK_OK(flush(process));
    return {};
}

Result<> TraceWriter::end(Process process) {
    if (process >= buffers_.size()) return fail("{}: the trace has no process {}", path_, process);
    if (buffers_[process].ended) return {};
    CHECK_OK(flush(process));
    buffers_[process].ended = true;
    return write_block({.type = BlockType::ended, .process = process, .first = buffers_[process].first}, {});
}

Result<> TraceWriter::close() {
    // All ends behind all events: resume() takes them back.
    CHECK_OK(flush());
    for (Process process = 0; process < buffers_.size(); ++process) {
        const Buffer& buffer = buffers_[process];
        if (buffer.ended || buffer.first + buffer.count == 0) continue;
        CHECK_OK(end(process));
    }
    return close_unended();
}

Result<> TraceWriter::close_unended() {
    CHECK_OK(flush());
    CHECK_OK(write_block({.type = BlockType::closed, .first = blocks_}, {}));
    fd_.reset();
    return {};
}

}  // namespace cairn::causality
