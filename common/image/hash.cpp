#include "common/image/hash.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop

namespace cairn {

std::uint64_t hash64(std::span<const std::uint8_t> data) {
    return XXH3_64bits(data.data(), data.size());
}

}  // namespace cairn
