// The name of the abstract Unix socket at which a coordinator hands out its session's region to who knows its
// path and can't open it.
#pragma once

#include <cstdint>

namespace cairn {

struct GateName {
    char text[sizeof "cairn-region-" + 16] = "cairn-region-";
};

// `path`: Region::path. Anybody who knows it can take the name first; who asks there looks who answers.
[[nodiscard]] constexpr GateName gate_name_of(const char* path) {
    std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
    for (; *path != '\0'; ++path) hash = (hash ^ static_cast<unsigned char>(*path)) * 0x100000001b3U;
    GateName name;
    char* to = &name.text[sizeof "cairn-region-" - 1];
    for (int shift = 60; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[hash >> shift & 15];
    *to = '\0';
    return name;
}

}  // namespace cairn
