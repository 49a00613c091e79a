// Compiled twice: CAIRN_HASH names the function, the compiler's options say what the CPU has.
#include <cstddef>

#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#define XXH_NO_STDLIB
#include <xxhash.h>

#include "restart/restorer/blob.h"

namespace cairn::restart::restorer {

std::uint64_t CAIRN_HASH(const void* data, std::size_t size) {
    return XXH3_64bits(data, size);
}

}  // namespace cairn::restart::restorer
