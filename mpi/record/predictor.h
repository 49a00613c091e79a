// Foresees the next call of a process from those before, so that a record has to say nothing about calls that
// could be foreseen. The recording process and the one that replays run it with the same input and so foresee
// the same.
#pragma once

#include <cstdint>
#include <vector>

namespace cairn::mpi {

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = (a ^ b * 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
    return x ^ x >> 29;
}

// A call is the function, the place in the program, the peer and the communicator as one number. What follows
// is told from the last two calls and from what the last call that may end in several ways came to: a send to
// whom a message was just received from, the end of a loop of Tests.
class Predictor {
  public:
    static constexpr std::uint32_t unknown = 0xffffffff;

    Predictor() : table_(entries, unknown) {}
    [[nodiscard]] std::uint32_t expected() const { return table_[at_]; }
    void happened(std::uint32_t call) {
        table_[at_] = call;
        last_ = last_ << 32 | call;
        look();
    }
    void came_to(std::uint64_t outcome) {
        outcome_ = outcome;
        look();
    }

  private:
    static constexpr std::size_t entries = 4096;
    void look() { at_ = mix(last_, outcome_ + 1) >> 7 & (entries - 1); }

    std::vector<std::uint32_t> table_;
    std::uint64_t last_ = 0, outcome_ = 0;
    std::size_t at_ = 0;
};

}  // namespace cairn::mpi
