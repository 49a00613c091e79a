// The binary trace (docs/trace-format.md): a file header, then blocks, each written by one write(2) to the
// end of the file. Numbers are little endian, as the machine's are (x86-64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "causality/event.h"
#include "common/error.h"

namespace cairn::causality {

inline constexpr std::uint64_t trace_magic = 0x4352544e52494143;  // "CAIRNTRC"
inline constexpr std::uint32_t trace_version = 4;
inline constexpr std::uint32_t version_without_took = 3;  // how long calls lasted
inline constexpr std::uint32_t oldest_trace_version = 2;  // without the blocks 6 to 9, sizes and types
inline constexpr std::uint32_t block_magic = 0x4b4c4243;  // "CBLK"
inline constexpr std::uint32_t most_block_bytes = 16U << 20;
inline constexpr std::uint32_t most_block_events = 1U << 20;

struct TraceHeader {
    std::uint64_t magic = trace_magic;
    std::uint32_t version = trace_version;
    std::uint32_t processes = 0;
    std::uint64_t id = 0;        // random: told from another file of the same name
    std::uint64_t checksum = 0;  // XXH3 of what is before
};
static_assert(sizeof(TraceHeader) == 32);

enum class BlockType : std::uint16_t {
    events = 1,        // of one process, `first` is the position of the first of them
    places = 2,        // `first` is the number of the first of them in this file, from 1
    communicator = 3,  // `first` is its id
    ended = 4,         // of one process, `first` is the number of its events; no payload
    closed = 5,        // nothing follows; `first` is the number of blocks before it; no payload
    standing = 6,      // the call that a process was in at its end; `count` is the number of requests
    types = 7,         // names, as places; `first` is the number of the first of them in this file, from 1
    tail = 8,          // the first of its file: where a process's events are that aren't in a block yet
    leaks = 9,         // of one process
};
inline constexpr unsigned block_types = 9;

// What the block of type `tail` holds; its payload changes while the program runs and has no checksum.
// Written so that a process that is killed between any two instructions leaves it whole.
struct TailState {
    static constexpr std::uint32_t most_requests = 64;
    std::uint64_t first = 0;   // position of the first event in it
    std::uint64_t fill = 0;    // number of events in the upper half, their bytes in the lower
    std::uint32_t stands = 0;  // 1: what follows is true
    std::uint8_t kind = 0, shape = 0, flags = 0, any = 0;
    std::uint32_t peer = 0, communicator = 0;
    std::int32_t tag = 0;
    std::uint32_t place = 0;
    std::int64_t time = 0;
    std::uint32_t requests = 0;
    std::uint32_t unused = 0;
    std::uint32_t request[most_requests] = {};
};
static_assert(sizeof(TailState) == 312);

struct BlockHeader {
    std::uint32_t magic = block_magic;
    BlockType type = BlockType::events;
    std::uint16_t unused = 0;
    std::uint32_t process = 0;
    std::uint32_t count = 0;  // of events, places or members
    std::uint64_t first = 0;
    std::uint32_t bytes = 0;  // of the payload, which follows
    std::uint32_t unused2 = 0;
    std::uint64_t payload_checksum = 0;
    std::uint64_t checksum = 0;  // XXH3 of what is before
};
static_assert(sizeof(BlockHeader) == 48);

[[nodiscard]] std::uint64_t checksum_of(const TraceHeader& header);
[[nodiscard]] std::uint64_t checksum_of(const BlockHeader& header);
// nullptr, or what is wrong with it.
[[nodiscard]] const char* problem_of(const BlockHeader& header);

// Writes numbers of 7 bits a byte, lowest first (LEB128).
void put_varint(std::vector<std::uint8_t>& out, std::uint64_t value);

// Reads what the functions above wrote; after an error (end of data, a number above its bound) every read
// gives 0 and ok() is false.
class ByteReader {
  public:
    explicit ByteReader(std::span<const std::uint8_t> data)
        : at_(data.data()), end_(data.data() + data.size()) {}
    std::uint8_t byte() {
        if (at_ == end_) {
            ok_ = false;
            return 0;
        }
        return *at_++;
    }
    std::uint64_t varint();
    std::uint64_t varint_below(std::uint64_t bound);
    std::uint32_t varint32() { return static_cast<std::uint32_t>(varint_below(std::uint64_t{1} << 32)); }
    std::string text(std::size_t most);
    [[nodiscard]] bool ok() const { return ok_; }
    [[nodiscard]] bool done() const { return ok_ && at_ == end_; }

  private:
    const std::uint8_t* at_;
    const std::uint8_t* end_;
    bool ok_ = true;
};

// A number of a fixed size, which is good whichever of its bytes have been written: 73 minutes in ns, or
// more.
inline constexpr std::size_t open_took_bytes = 6;
void put_took(std::span<std::uint8_t> out, std::int64_t took);

// Events of one process, each written as its difference to the one before. The state begins anew with each
// block, so that a block can be read without the others.
class EventCoder {
  public:
    void encode(std::vector<std::uint8_t>& out, const Event& event) { encode(out, event, false); }
    // How long the event's call lasts isn't known yet: the last `open_took_bytes` of what is written are for
    // put_took().
    void encode_open(std::vector<std::uint8_t>& out, const Event& event) { encode(out, event, true); }
    // False: these bytes are no event.
    [[nodiscard]] bool decode(ByteReader& in, Event& event);

  private:
    void encode(std::vector<std::uint8_t>& out, const Event& event, bool open);

    Event last_{.peer = 0};
    std::uint32_t last_bytes_ = unknown_bytes, last_type_ = 0;
    std::uint64_t sent_ = 0;  // number of the last message that had one, for each direction
    std::uint64_t received_ = 0;
};

void encode_place(std::vector<std::uint8_t>& out, const Place& place);
[[nodiscard]] bool decode_place(ByteReader& in, Place& place);
void encode_standing(std::vector<std::uint8_t>& out, const Standing& standing);
[[nodiscard]] bool decode_standing(ByteReader& in, std::uint32_t count, Standing& standing);
void encode_leak(std::vector<std::uint8_t>& out, const Leak& leak);
[[nodiscard]] bool decode_leak(ByteReader& in, Leak& leak);
void encode_text(std::vector<std::uint8_t>& out, const std::string& text);
void encode_communicator(std::vector<std::uint8_t>& out, const Communicator& communicator);
[[nodiscard]] bool decode_communicator(ByteReader& in, std::uint32_t count, Communicator& communicator);

}  // namespace cairn::causality
