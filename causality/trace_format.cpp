#include "causality/trace_format.h"

#include <algorithm>

#include "common/image/hash.h"

namespace cairn::causality {
namespace {

template <class T>
std::uint64_t hash_before_checksum(const T& header) {
    return hash64({reinterpret_cast<const std::uint8_t*>(&header), offsetof(T, checksum)});
}

// Small numbers of either sign become small numbers.
std::uint64_t zigzag(std::uint64_t difference) {
    const auto value = static_cast<std::int64_t>(difference);
    return (difference << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::uint64_t unzigzag(std::uint64_t value) {
    return (value >> 1) ^ (~(value & 1) + 1);
}

// First byte: kind, shape, and which of these are there.
constexpr unsigned shape_shift = 3;
constexpr std::uint8_t has_flags = 1U << 5;
constexpr std::uint8_t has_request = 1U << 6;
constexpr std::uint8_t has_message = 1U << 7;
// Second byte: what differs from the event before.
constexpr std::uint8_t new_peer = 1;
constexpr std::uint8_t new_communicator = 2;
constexpr std::uint8_t new_tag = 4;
constexpr std::uint8_t new_place = 8;
constexpr std::uint8_t next_message = 16;  // the number is the last one of this direction + 1
constexpr std::uint8_t no_peer = 32;
constexpr std::uint8_t new_size = 64;  // bytes and type, of an event that may have them
constexpr std::uint8_t has_took = 128;

}  // namespace

std::uint64_t checksum_of(const TraceHeader& header) {
    return hash_before_checksum(header);
}
std::uint64_t checksum_of(const BlockHeader& header) {
    return hash_before_checksum(header);
}

const char* problem_of(const BlockHeader& header) {
    if (header.magic != block_magic) return "no block begins here";
    if (header.checksum != checksum_of(header)) return "the checksum of a block's header is wrong";
    const auto type = static_cast<unsigned>(header.type);
    if (type < 1 || type > block_types) return "the type of a block is unknown";
    if (header.bytes > most_block_bytes) return "a block is too large";
    if (header.type == BlockType::events && (header.count == 0 || header.count > most_block_events))
        return "the number of events in a block is out of range";
    if (header.type == BlockType::events && header.first + header.count > none)
        return "a process has too many events";
    if (header.first > std::uint64_t{1} << 40) return "the first number of a block is out of range";
    if ((header.type == BlockType::ended || header.type == BlockType::closed) && header.bytes != 0)
        return "a block of its type has no contents";
    return nullptr;
}

void put_varint(std::vector<std::uint8_t>& out, std::uint64_t value) {
    while (value >= 0x80) {
        out.push_back(static_cast<std::uint8_t>(value | 0x80));
        value >>= 7;
    }
    out.push_back(static_cast<std::uint8_t>(value));
}

std::uint64_t ByteReader::varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const std::uint8_t each = byte();
        if (shift == 63 && each > 1) break;  // more than 64 bits
        value |= static_cast<std::uint64_t>(each & 0x7fU) << shift;
        if ((each & 0x80U) == 0) return ok_ ? value : 0;
    }
    ok_ = false;
    return 0;
}

std::uint64_t ByteReader::varint_below(std::uint64_t bound) {
    const std::uint64_t value = varint();
    if (value < bound) return value;
    ok_ = false;
    return 0;
}

std::string ByteReader::text(std::size_t most) {
    const std::uint64_t size = varint_below(most + 1);
    if (!ok_ || size > static_cast<std::uint64_t>(end_ - at_)) {
        ok_ = false;
        return {};
    }
    std::string value(reinterpret_cast<const char*>(at_), size);
    at_ += size;
    return value;
}

void put_took(std::span<std::uint8_t> out, std::int64_t took) {
    constexpr std::int64_t most = (std::int64_t{1} << 7 * open_took_bytes) - 1;
    auto value = static_cast<std::uint64_t>(std::clamp<std::int64_t>(took, 0, most));
    for (std::size_t i = 0; i < open_took_bytes; ++i, value >>= 7)
        out[i] = static_cast<std::uint8_t>((value & 0x7fU) | (i + 1 < open_took_bytes ? 0x80U : 0U));
}

void EventCoder::encode(std::vector<std::uint8_t>& out, const Event& event, bool open) {
    std::uint8_t first = static_cast<std::uint8_t>(static_cast<unsigned>(event.kind) |
                                                   static_cast<unsigned>(event.shape) << shape_shift);
    if (event.flags != 0) first |= has_flags;
    if (event.request != 0) first |= has_request;
    if (event.message != 0) first |= has_message;
    std::uint64_t& number = event.kind == Kind::receive ? received_ : sent_;
    std::uint8_t second = 0;
    if (event.peer == none)
        second |= no_peer;
    else if (event.peer != last_.peer)
        second |= new_peer;
    if (event.communicator != last_.communicator) second |= new_communicator;
    if (event.tag != last_.tag) second |= new_tag;
    if (event.place != last_.place) second |= new_place;
    if (event.message != 0 && event.message == number + 1) second |= next_message;
    if (event.sized() && (event.bytes != last_bytes_ || event.type != last_type_)) second |= new_size;
    if (open || event.took != 0) second |= has_took;
    out.push_back(first);
    out.push_back(second);
    if ((first & has_flags) != 0) out.push_back(event.flags);
    if ((second & new_peer) != 0) put_varint(out, event.peer);
    if ((second & new_communicator) != 0) put_varint(out, event.communicator);
    if ((second & new_tag) != 0) put_varint(out, static_cast<std::uint32_t>(event.tag));
    if ((second & new_place) != 0) put_varint(out, event.place);
    if ((first & has_request) != 0) put_varint(out, event.request);
    if ((first & has_message) != 0) {
        if ((second & next_message) == 0) put_varint(out, event.message);
        number = event.message;
    }
    if ((second & new_size) != 0) {
        put_varint(out, last_bytes_ = event.bytes);
        put_varint(out, last_type_ = event.type);
    }
    put_varint(out, zigzag(static_cast<std::uint64_t>(event.time) - static_cast<std::uint64_t>(last_.time)));
    if (open) {
        out.resize(out.size() + open_took_bytes);
        put_took(std::span(out).last(open_took_bytes), event.took);
    } else if (event.took != 0) {
        put_varint(out, static_cast<std::uint64_t>(event.took));
    }
    const Process peer = event.peer == none ? last_.peer : event.peer;
    last_ = event;
    last_.peer = peer;
}

bool EventCoder::decode(ByteReader& in, Event& event) {
    const std::uint8_t first = in.byte(), second = in.byte();
    event.kind = static_cast<Kind>(first & 7U);
    event.shape = static_cast<Shape>(first >> shape_shift & 3U);
    event.flags = (first & has_flags) != 0 ? in.byte() : std::uint8_t{0};
    Process peer = last_.peer;
    if ((second & new_peer) != 0) peer = in.varint32();
    event.peer = (second & no_peer) != 0 ? none : peer;
    event.communicator = (second & new_communicator) != 0 ? in.varint32() : last_.communicator;
    event.tag = (second & new_tag) != 0 ? static_cast<std::int32_t>(in.varint32()) : last_.tag;
    event.place = (second & new_place) != 0 ? in.varint32() : last_.place;
    event.request = (first & has_request) != 0 ? in.varint32() : 0;
    event.message = 0;
    if ((first & has_message) != 0) {
        std::uint64_t& number = event.kind == Kind::receive ? received_ : sent_;
        event.message = (second & next_message) != 0 ? number + 1 : in.varint();
        number = event.message;
    }
    if ((second & new_size) != 0) {
        last_bytes_ = in.varint32();
        last_type_ = in.varint32();
    }
    event.bytes = event.sized() ? last_bytes_ : unknown_bytes;
    event.type = event.sized() ? last_type_ : 0;
    event.time = static_cast<std::int64_t>(static_cast<std::uint64_t>(last_.time) + unzigzag(in.varint()));
    constexpr std::uint64_t bound = static_cast<std::uint64_t>(most_took) + 1;
    event.took = (second & has_took) != 0 ? static_cast<std::int64_t>(in.varint_below(bound)) : 0;
    last_ = event;
    last_.peer = peer;
    return in.ok() && !((second & no_peer) != 0 && (second & new_peer) != 0);
}

void encode_text(std::vector<std::uint8_t>& out, const std::string& text) {
    put_varint(out, text.size());
    out.insert(out.end(), text.begin(), text.end());
}

void encode_place(std::vector<std::uint8_t>& out, const Place& place) {
    for (const std::string* text : {&place.file, &place.function, &place.call}) encode_text(out, *text);
    put_varint(out, place.line);
}

bool decode_place(ByteReader& in, Place& place) {
    constexpr std::size_t longest = 1U << 16;
    place.file = in.text(longest);
    place.function = in.text(longest);
    place.call = in.text(longest);
    place.line = in.varint32();
    return in.ok();
}

void encode_standing(std::vector<std::uint8_t>& out, const Standing& standing) {
    EventCoder().encode(out, standing.event);
    out.push_back(standing.any ? 1 : 0);
    for (const std::uint32_t request : standing.requests) put_varint(out, request);
}

bool decode_standing(ByteReader& in, std::uint32_t count, Standing& standing) {
    if (!EventCoder().decode(in, standing.event)) return false;
    standing.any = in.byte() != 0;
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) standing.requests.push_back(in.varint32());
    return in.ok();
}

void encode_leak(std::vector<std::uint8_t>& out, const Leak& leak) {
    out.push_back(static_cast<std::uint8_t>(leak.what));
    put_varint(out, leak.place);
    put_varint(out, leak.count);
}

bool decode_leak(ByteReader& in, Leak& leak) {
    leak.what = static_cast<Leaked>(in.byte());
    leak.place = in.varint32();
    leak.count = in.varint();
    return in.ok() && static_cast<unsigned>(leak.what) < leaked_kinds;
}

void encode_communicator(std::vector<std::uint8_t>& out, const Communicator& communicator) {
    Process before = 0;
    for (const Process member : communicator.members) {
        put_varint(out, member - before);
        before = member;
    }
}

bool decode_communicator(ByteReader& in, std::uint32_t count, Communicator& communicator) {
    std::uint64_t member = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint64_t gap = in.varint_below(most_processes);
        if (!in.ok() || (i > 0 && gap == 0)) return false;
        member += gap;
        if (member >= most_processes) return false;
        communicator.members.push_back(static_cast<Process>(member));
    }
    return true;
}

}  // namespace cairn::causality
