#include "causality/trace_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "causality/trace_tail.h"
#include "common/image/hash.h"

namespace cairn::causality {

struct TraceReader::File {
    std::string path;
    Fd fd;
    std::uint64_t size = 0;
    std::vector<std::uint32_t> places = {0};  // number in this file -> index in places_
    std::vector<std::uint32_t> types = {0};   // the same
    bool closed = false;
    std::uint64_t tail = 0;  // where the payload of the tail is; 0: it has none
    std::uint32_t tail_bytes = 0;
    Process tail_of = none;
    std::uint64_t content_bytes = sizeof(TraceHeader), content_blocks = 0;
    std::vector<Process> ended_last;  // ends of processes behind the content

    // Where the zeros begin that the file ends with.
    [[nodiscard]] Result<std::uint64_t> end_of_data() const {
        std::vector<std::uint8_t> chunk(64U << 10);
        std::uint64_t behind = size;
        while (behind > 0) {
            const std::uint64_t begin = behind - std::min<std::uint64_t>(behind, chunk.size());
            const std::span part(chunk.data(), static_cast<std::size_t>(behind - begin));
            if (auto got = read(begin, part); !got || !*got)
                return got ? Result<std::uint64_t>(behind) : std::unexpected(got.error());
            const auto last = std::find_if(part.rbegin(), part.rend(), [](auto each) { return each != 0; });
            if (last != part.rend()) return begin + static_cast<std::uint64_t>(part.rend() - last);
            behind = begin;
        }
        return 0;
    }
    // False at the end of the file.
    [[nodiscard]] Result<bool> read(std::uint64_t offset, std::span<std::uint8_t> into) const {
        while (!into.empty()) {
            const ssize_t n = ::pread(fd.get(), into.data(), into.size(), static_cast<off_t>(offset));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return fail_errno("reading the trace {}", path);
            if (n == 0) return false;
            into = into.subspan(static_cast<std::size_t>(n));
            offset += static_cast<std::uint64_t>(n);
        }
        return true;
    }
    template <class... Args>
    [[nodiscard]] std::unexpected<Error> damaged(std::uint64_t offset, fmt::format_string<Args...> form,
                                                 Args&&... args) const {
        return fail_code(ExitCode::damaged, "{}: at byte {}: {}", path, offset,
                         fmt::format(form, std::forward<Args>(args)...));
    }
};

TraceReader::TraceReader() = default;
TraceReader::~TraceReader() = default;

Result<std::unique_ptr<TraceReader>> TraceReader::open(std::span<const std::string> paths) {
    if (paths.empty()) return fail("a trace of no files");
    std::unique_ptr<TraceReader> reader(new TraceReader);
    for (const std::string& path : paths) CHECK_OK(reader->add_file(path));
    return reader;
}

Result<> TraceReader::add_file(const std::string& path) {
    File& file = files_.emplace_back();
    file.path = path;
    file.fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file.fd || ::fstat(file.fd.get(), &status) != 0) return fail_errno("opening the trace {}", path);
    file.size = static_cast<std::uint64_t>(status.st_size);
    CHECK_OK(read_header(file));

    std::uint64_t offset = sizeof(TraceHeader), blocks = 0;
    for (;;) {
        const bool whole = TRY(read_blocks(file, offset, blocks));
        if (file.closed) return {};
        const bool joins = TRY(add_tail(file));
        // What was in the tail is in a block now, if the program still runs.
        if (::fstat(file.fd.get(), &status) != 0) return fail_errno("{}", path);
        const auto size = static_cast<std::uint64_t>(status.st_size);
        if (!joins && size != file.size) {
            file.size = size;
            continue;
        }
        notes_.push_back(
            whole ? fmt::format("{}: not closed; the program was killed, or still runs", path)
                  : fmt::format("{}: the last block, at byte {}, was lost in a crash", path, offset));
        if (!joins)
            notes_.push_back(
                fmt::format("{}: the last events of process {} were lost in a crash", path, file.tail_of));
        return {};
    }
}

// From `offset` on, to the end of what there is. False: the last one was lost in a crash.
Result<bool> TraceReader::read_blocks(File& file, std::uint64_t& offset, std::uint64_t& blocks) {
    // A file that wasn't closed may end anywhere in its last block, and the pages at its end may be zeros.
    const auto data_end = TRY(file.end_of_data());
    while (offset < file.size) {
        const auto next = TRY(read_block(file, offset, data_end, blocks));
        if (!next) return false;
        ++blocks;
        offset = next->end;
        if (next->type == BlockType::ended) {
            file.ended_last.push_back(next->process);
        } else if (next->type != BlockType::closed) {
            file.content_bytes = offset;
            file.content_blocks = blocks;
            file.ended_last.clear();
        }
    }
    return true;
}

Result<> TraceReader::read_header(const File& file) {
    TraceHeader header;
    const bool whole = TRY(file.read(0, {reinterpret_cast<std::uint8_t*>(&header), sizeof header}));
    if (!whole) return file.damaged(0, "too short for a trace");
    if (header.magic != trace_magic) return file.damaged(0, "this is no cairn trace");
    if (header.version < oldest_trace_version || header.version > trace_version)
        return file.damaged(0, "a trace of version {}; this cairn reads versions {} to {}", header.version,
                            oldest_trace_version, trace_version);
    if (header.checksum != checksum_of(header)) return file.damaged(0, "the checksum of the header is wrong");
    if (header.processes == 0 || header.processes > most_processes)
        return file.damaged(0, "a trace of {} processes", header.processes);
    says_all_ = says_all_ && header.version >= version_without_took;
    if (streams_.empty())
        streams_.resize(header.processes);
    else if (streams_.size() != header.processes)
        return file.damaged(0, "a trace of {} processes, but {} has {}", header.processes, files_[0].path,
                            streams_.size());
    return {};
}

// Nothing: the block was lost in a crash. `blocks`: how many lie before it.
Result<std::optional<TraceReader::NextBlock>> TraceReader::read_block(File& file, std::uint64_t offset,
                                                                      std::uint64_t data_end,
                                                                      std::uint64_t blocks) {
    const std::optional<NextBlock> lost;
    if (file.closed) return file.damaged(offset, "something follows the end");
    BlockHeader block;
    const std::uint64_t begin = offset + sizeof block;
    const bool has_header = TRY(file.read(offset, {reinterpret_cast<std::uint8_t*>(&block), sizeof block}));
    if (!has_header) return lost;
    if (const char* problem = problem_of(block)) {
        if (begin > data_end) return lost;
        return file.damaged(offset, "{}", problem);
    }
    const std::uint64_t end = begin + block.bytes;
    if (end > file.size) return lost;
    // Event blocks are compared with their checksums when they are read; what is small, and the last, now.
    if (block.type == BlockType::tail) {
        if (offset != sizeof(TraceHeader) || block.process >= streams_.size())
            return file.damaged(offset, "the tail of a process stands where none can be");
        file.tail = begin;
        file.tail_bytes = block.bytes;
        file.tail_of = block.process;
        return NextBlock{block.type, block.process, end};
    }
    const bool last = end >= data_end;
    std::vector<std::uint8_t> payload;
    if (block.type != BlockType::events || last) {
        payload.resize(block.bytes);
        const bool whole = TRY(file.read(begin, payload));
        if (!whole || hash64(payload) != block.payload_checksum) {
            if (last) return lost;
            return file.damaged(offset, "the checksum of a block is wrong");
        }
    }
    switch (block.type) {
        case BlockType::closed:
            if (block.first != blocks)
                return file.damaged(offset, "blocks are missing: {} instead of {}", blocks, block.first);
            file.closed = true;
            break;
        case BlockType::places:
            CHECK_OK(read_places(file, block, offset, payload));
            break;
        case BlockType::types:
            CHECK_OK(read_types(file, block, offset, payload));
            break;
        case BlockType::standing:
            CHECK_OK(read_standing(file, block, offset, payload));
            break;
        case BlockType::leaks:
            CHECK_OK(read_leaks(file, block, offset, payload));
            break;
        case BlockType::communicator:
            CHECK_OK(read_communicator(file, block, offset, payload));
            break;
        default:
            CHECK_OK(add_block(static_cast<std::uint32_t>(files_.size() - 1), block, begin));
    }
    return NextBlock{block.type, block.process, end};
}

Result<> TraceReader::read_places(File& file, const BlockHeader& block, std::uint64_t offset,
                                  std::span<const std::uint8_t> payload) {
    ByteReader in(payload);
    if (block.first != file.places.size())
        return file.damaged(offset, "places are not numbered one after the other");
    for (std::uint32_t i = 0; i < block.count; ++i) {
        Place place;
        if (!decode_place(in, place)) return file.damaged(offset, "no place can be read");
        // Files of several processes name the same places.
        const auto found =
            files_.size() == 1 ? places_.end() : std::find(places_.begin(), places_.end(), place);
        file.places.push_back(static_cast<std::uint32_t>(found - places_.begin()));
        if (found == places_.end()) places_.push_back(std::move(place));
    }
    if (!in.done()) return file.damaged(offset, "bytes are left over behind the places");
    return {};
}

Result<> TraceReader::read_types(File& file, const BlockHeader& block, std::uint64_t offset,
                                 std::span<const std::uint8_t> payload) {
    constexpr std::size_t longest = 1U << 16;
    ByteReader in(payload);
    if (block.first != file.types.size())
        return file.damaged(offset, "types are not numbered one after the other");
    for (std::uint32_t i = 0; i < block.count; ++i) {
        const std::string name = in.text(longest);
        if (!in.ok()) return file.damaged(offset, "no type can be read");
        const auto found = std::find(types_.begin(), types_.end(), name);
        file.types.push_back(static_cast<std::uint32_t>(found - types_.begin()));
        if (found == types_.end()) types_.push_back(name);
    }
    if (!in.done()) return file.damaged(offset, "bytes are left over behind the types");
    return {};
}

Result<> TraceReader::read_standing(const File& file, const BlockHeader& block, std::uint64_t offset,
                                    std::span<const std::uint8_t> payload) {
    ByteReader in(payload);
    Standing read;
    if (block.process >= streams_.size() || !decode_standing(in, block.count, read) || !in.done() ||
        read.event.place >= file.places.size())
        return file.damaged(offset, "where a process stands can't be read");
    read.event.place = file.places[read.event.place];
    streams_[block.process].standing = std::move(read);
    return {};
}

Result<> TraceReader::read_leaks(const File& file, const BlockHeader& block, std::uint64_t offset,
                                 std::span<const std::uint8_t> payload) {
    ByteReader in(payload);
    for (std::uint32_t i = 0; i < block.count; ++i) {
        Leak leak{.process = block.process};
        if (block.process >= streams_.size() || !decode_leak(in, leak) || leak.place >= file.places.size())
            return file.damaged(offset, "what a process hasn't freed can't be read");
        leak.place = file.places[leak.place];
        leaks_.push_back(leak);
    }
    if (!in.done()) return file.damaged(offset, "bytes are left over behind what wasn't freed");
    return {};
}

// A tail that makes no sense is that of a machine that went down: what is in the blocks is good without it.
// False: it begins behind what the blocks have.
Result<bool> TraceReader::add_tail(File& file) {
    if (file.tail == 0) return true;
    std::vector<std::uint8_t> payload(file.tail_bytes);
    const auto whole = TRY(file.read(file.tail, payload));
    auto content = whole ? read_tail(payload) : std::nullopt;
    Stream& stream = streams_[file.tail_of];
    const auto lost = [&]() -> Result<bool> {
        notes_.push_back(
            fmt::format("{}: the last events of process {} were lost in a crash", file.path, file.tail_of));
        return true;
    };
    if (!content) return lost();
    if (stream.ended) return true;
    // Otherwise a block with the same events was written last.
    if (content->first == stream.events && content->count > 0) {
        const auto events = std::span(payload).subspan(content->offset, content->bytes);
        ByteReader in(events);
        EventCoder coder;
        Event event;
        for (std::uint32_t i = 0; i < content->count; ++i)
            if (!coder.decode(in, event) || event.place >= file.places.size() ||
                event.type >= file.types.size())
                return lost();
        if (!in.done()) return lost();
        const std::uint32_t number = static_cast<std::uint32_t>(&file - files_.data());
        stream.blocks.push_back(
            {number, content->count, content->bytes, file.tail + content->offset, hash64(events)});
        stream.events += content->count;
    } else if (content->first > stream.events) {
        return false;
    }
    if (content->standing && content->standing->event.place < file.places.size()) {
        content->standing->event.place = file.places[content->standing->event.place];
        stream.standing = std::move(content->standing);
    }
    return true;
}

Result<> TraceReader::read_communicator(const File& file, const BlockHeader& block, std::uint64_t offset,
                                        std::span<const std::uint8_t> payload) {
    ByteReader in(payload);
    Communicator read{.id = static_cast<std::uint32_t>(block.first), .members = {}};
    if (block.first == 0 || block.first >= none || !decode_communicator(in, block.count, read) ||
        !in.done() || (!read.members.empty() && read.members.back() >= streams_.size()))
        return file.damaged(offset, "no communicator can be read");
    const auto known = std::find_if(communicators_.begin(), communicators_.end(),
                                    [&](const Communicator& each) { return each.id == read.id; });
    if (known == communicators_.end())
        communicators_.push_back(std::move(read));
    else if (known->members != read.members)
        return file.damaged(offset, "communicator {} has other members than before", read.id);
    return {};
}

Result<> TraceReader::add_block(std::uint32_t file, const BlockHeader& header, std::uint64_t offset) {
    const File& from = files_[file];
    if (header.process >= streams_.size())
        return from.damaged(offset, "the trace has no process {}", header.process);
    Stream& stream = streams_[header.process];
    if (!stream.blocks.empty() && stream.blocks.front().file != file)
        return from.damaged(offset, "process {} is also in {}", header.process,
                            files_[stream.blocks.front().file].path);
    if (stream.ended) return from.damaged(offset, "process {} goes on after its end", header.process);
    if (header.first != stream.events)
        return from.damaged(offset, "process {} goes on with event {} after event {}", header.process,
                            header.first, static_cast<std::int64_t>(stream.events) - 1);
    if (header.type == BlockType::ended) {
        stream.ended = true;
        return {};
    }
    stream.events += header.count;
    stream.blocks.push_back({file, header.count, header.bytes, offset, header.payload_checksum});
    return {};
}

TraceReader::Content TraceReader::content() const {
    const File& file = files_.front();
    Content content{.bytes = file.content_bytes,
                    .blocks = file.content_blocks,
                    .events = {},
                    .ended = {},
                    .has_tail = file.tail != 0};
    for (const Stream& stream : streams_) {
        content.events.push_back(stream.events);
        content.ended.push_back(stream.ended);
    }
    for (const Process each : file.ended_last) content.ended[each] = false;
    return content;
}

std::uint64_t TraceReader::events() const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.events;
    return sum;
}

void TraceReader::rewind() {
    for (Stream& stream : streams_) {
        stream.next_block = 0;
        stream.left = 0;
        stream.position = 0;
        stream.reader.reset();
    }
}

Result<> TraceReader::load_block(Process process) {
    Stream& stream = streams_[process];
    const Block& block = stream.blocks[stream.next_block++];
    const File& file = files_[block.file];
    stream.payload.resize(block.bytes);
    const auto got = TRY(file.read(block.offset, stream.payload));
    if (!got || hash64(stream.payload) != block.checksum)
        return file.damaged(block.offset, "process {}, events {} to {}: the checksum of the block is wrong",
                            process, stream.position, stream.position + block.count - 1);
    stream.reader = std::make_unique<ByteReader>(stream.payload);
    stream.coder = {};
    stream.left = block.count;
    return {};
}

Result<bool> TraceReader::next(Process process, Event& event) {
    Stream& stream = streams_[process];
    if (stream.left == 0) {
        if (stream.next_block == stream.blocks.size()) return false;
        CHECK_OK(load_block(process));
    }
    const Block& block = stream.blocks[stream.next_block - 1];
    const File& file = files_[block.file];
    if (!stream.coder.decode(*stream.reader, event) || (stream.left == 1 && !stream.reader->done()))
        return file.damaged(block.offset, "process {}, event {}: no event can be read", process,
                            stream.position);
    if (event.place >= file.places.size())
        return file.damaged(block.offset, "process {}, event {}: place {} is not defined", process,
                            stream.position, event.place);
    if (event.type >= file.types.size())
        return file.damaged(block.offset, "process {}, event {}: type {} is not defined", process,
                            stream.position, event.type);
    event.place = file.places[event.place];
    event.type = file.types[event.type];
    --stream.left;
    ++stream.position;
    return true;
}

}  // namespace cairn::causality
