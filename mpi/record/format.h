// The record of one process of an MPI job: the file that DIR/rank.N is (docs/mpi.md). Behind a header with
// what the record is of, blocks; in a block what each column got since the block before. What isn't in a
// block yet is in DIR/tail.N, a mapping that survives the death of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/error.h"

namespace cairn::mpi {

inline constexpr std::uint64_t record_magic = 0x524d4e5249414321;  // "!CAIRNMR"
inline constexpr std::uint64_t tail_magic = 0x544d4e5249414321;
inline constexpr std::uint32_t record_version = 7;
inline constexpr std::uint32_t block_magic = 0x424d5243;  // "CRMB"

// Each column is a row of numbers (LEB128) or bytes that is written and read on its own, in the order of the
// calls. A column that always says the same costs next to nothing.
enum class Column : std::uint8_t {
    position,  // of each receive whose message could have been another, as it completes: how many of those
               // posted before it were still open, times 8; + 1 cancelled, + 2 source follows, + 4 tag
               // follows
    source,    // ... whose message it got, where it asked for any
    tag,       // ... with which tag, where it asked for any
    probe_source,  // the same of probes that found a message
    probe_tag,
    falses,      // how many tests and probes in a row said no before one said yes
    index,       // Waitany and its kin: which request, or how many and which
    hits,        // how many calls in a row were the expected ones (predictor.h) ...
    call,        // ... and the call that was not: its number, from 0 in the order of first use
    new_call,    // a call used for the first time: site, peer, communicator
    new_site,    // a site used for the first time: function, module, offset in it
    module,      // a module: length and bytes of its path
    cancelled,   // numbers of posts that were cancelled, each as its difference to the last
    notes,       // length and bytes
    content,     // with --contents: what was received
    turn,        // of several threads: which makes the next steps (threads.h), by number from 1, ...
    run,         // ... and how many, when they are over
    new_thread,  // of each number, when it is first used: how its thread was born
    order,       // at the program's end: the hash of the order of its events
    clock,       // with --clock: MPI_Wtime, the bits of each number as the difference to the last
    count_
};
inline constexpr std::size_t columns = static_cast<std::size_t>(Column::count_);
[[nodiscard]] const char* name(Column column);

// What a column may hold before it goes into a block.
[[nodiscard]] constexpr std::uint32_t room_of(Column column, bool contents) {
    return column != Column::content ? 16U << 10 : contents ? 1U << 20 : 0;
}
inline constexpr std::size_t tail_header_room = 4096;

struct BlockHeader {
    std::uint32_t magic = block_magic;
    std::uint32_t number = 0;  // from 0
    std::uint64_t events = 0;  // calls that had begun when it was written
    std::uint32_t bytes = 0;   // of the segments behind it
    std::uint32_t flags = 0;
    std::uint64_t payload_checksum = 0;
    std::uint64_t checksum = 0;  // XXH3 of what is before
};
static_assert(sizeof(BlockHeader) == 40);
inline constexpr std::uint32_t last_block =
    1;  // the program went through MPI_Finalize; `events` is the number of its calls

// Before each column's bytes in a block.
struct SegmentHeader {
    std::uint8_t column = 0;
    std::uint8_t compressed = 0;  // by zstd
    std::uint16_t unused = 0;
    std::uint32_t bytes = 0;   // here
    std::uint32_t length = 0;  // unpacked
};
static_assert(sizeof(SegmentHeader) == 12);

// At the beginning of the tail, shared with the kernel only: each store is there when the process is killed
// behind it.
struct TailHeader {
    std::uint64_t magic = 0;
    std::uint64_t job = 0;
    std::uint64_t begun = 0;       // calls
    std::uint64_t done = 0;        // of them returned
    std::uint32_t generation = 0;  // blocks that had been written when `used` began from 0
    std::uint32_t stopped = 0;     // recording was given up (full disk)
    std::uint64_t falses = 0;      // since the last entry of Column::falses
    std::uint64_t hits = 0;
    std::uint32_t used[columns] = {};
};

// What a record is of.
struct Identity {
    std::uint64_t job = 0;  // random, the same in all processes
    int rank = 0;
    int size = 0;
    std::string mpi;        // "mpich" or "openmpi"
    std::string program;    // path
    std::string build;      // its build id, or the hash of its file
    std::string arguments;  // for people
    bool contents = false, clock = false;
    bool threads = false;  // several may call the MPI, and their turns are recorded
};

// Header of the file: magic, version, length of the text, checksum of the text, text.
[[nodiscard]] std::string encode_header(const Identity& identity);
// `used`: its length. Code damaged: it is cut, of another version or damaged.
[[nodiscard]] Result<Identity> decode_header(const std::string& bytes, std::size_t& used);

// Of a program's file: its GNU build id, else "xxh3-" and the hash of the whole file.
[[nodiscard]] Result<std::string> build_of(const std::string& path);

[[nodiscard]] std::string record_path(const std::string& folder, int rank);
[[nodiscard]] std::string tail_path(const std::string& folder, int rank);

[[nodiscard]] std::uint64_t hash_of(const void* data, std::size_t size);

inline std::uint64_t zigzag(std::int64_t value) {
    return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t unzigzag(std::uint64_t value) {
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

}  // namespace cairn::mpi
