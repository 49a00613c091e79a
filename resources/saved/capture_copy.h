// A copy of a file's contents that is made while programs write to it, and brought up to date when they stand
// still: what was copied is known by the hash of each block, so that the copy needn't be read again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "common/error.h"

namespace cairn::capture {

// Said after each piece, with the bytes of the file that were looked at; an error ends the copying.
using CopyTold = std::function<Result<>(std::uint64_t bytes)>;

class BlockCopy {
  public:
    // A page is the least that a store to a mapping changes; a database's page is 4 to 16 KiB; a hash for
    // each 64 KiB is 128 KiB of memory for a GiB.
    static constexpr std::uint64_t block = std::uint64_t{64} << 10;

    // Makes `to` what `from` is now, of `size` bytes, holes kept where nothing was before. `helpers`: threads
    // beside the caller's. Returns the bytes that had to be written.
    [[nodiscard]] Result<std::uint64_t> update(int from, int to, std::uint64_t size, std::size_t helpers,
                                               const CopyTold& told);

  private:
    [[nodiscard]] Result<std::uint64_t> piece(int from, int to, std::uint64_t begin, std::uint64_t end,
                                              std::size_t known);

    std::vector<std::uint64_t> hashes_;
    std::uint64_t size_ = 0;
};

}  // namespace cairn::capture
