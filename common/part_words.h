// How a program that takes part in its checkpoints (part/cairn.h) and cairn speak to each other: by bits of
// its slot's flags, and by words in the program's own memory, which a capture reads and writes from outside.
// A restored program has the words as they were, but for `mark`.
//
// Used by libcairn-part.so as well: no libstdc++ symbols, lock-free atomics only.
#pragma once

#include <atomic>
#include <cstdint>

namespace cairn {

// Bits of Slot::flags beside those of SlotFlag. A change of the flags wakes whoever waits on them (futex).
enum PartFlag : std::uint32_t {
    slot_takes_part = 1U << 16,        // the process has PartWords. Set by it, again after each restart
    slot_part_turn = 1U << 17,         // turned over by a capture that has written an order
    slot_wants_checkpoint = 1U << 18,  // set by the process, taken away by the coordinator
    slot_answered = 1U << 19,          // set by the coordinator when that checkpoint is over,
};
inline constexpr unsigned slot_answer_shift = 24;  // with its exit code in these bits

// What /proc/PID/maps calls the private mapping that begins with PartWords.
inline constexpr const char* part_mapping = "cairn-part";  // the memfd's name
inline constexpr std::uint64_t part_magic = 0x3174726150724943ULL;

enum class PartOrder : std::uint32_t { none = 0, prepare = 1, over = 2, given_up = 3 };
enum class PartStage : std::uint32_t { idle = 0, busy = 1, ready = 2, refused = 3 };

struct PartWords {
    std::uint64_t magic;
    std::atomic<std::uint32_t> forbidden;  // sections that threads are in (cairn_forbid)
    std::atomic<std::uint32_t> hooks;      // 1: a thread of the library's answers orders
    // Written by a capture: as long as Region::capture has this number nobody begins a section.
    std::atomic<std::uint64_t> closed;
    // Written by a capture: the number that Region::capture has, and what it wants. `asked` comes first.
    std::atomic<std::uint64_t> asked;
    std::atomic<PartOrder> order;
    // Written by the program: how far it is with `done`.
    std::atomic<PartStage> stage;
    std::atomic<std::uint64_t> done;
    // The number of the checkpoint that this memory is from. Written into images only, never into a process
    // that goes on: whoever sees it change has been restarted.
    std::atomic<std::uint64_t> mark;
    char reason[112];  // why a hook has refused
};
static_assert(sizeof(PartWords) == 168);

}  // namespace cairn
