// uID = <hash of host name>-<pid>-<time stamp>: names a process over hosts and restarts (docs/protocol.md).
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/ids.h"

namespace cairn {

// FNV-1a, 64 bits: the same on every host and in every version.
[[nodiscard]] constexpr std::uint64_t host_hash(std::string_view host) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const char c : host) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return hash;
}

[[nodiscard]] inline std::string host_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string("localhost");
}

// `pid`: as Slot::name has it, so that it is the same after a restart with other ids of the kernel's;
// `born_ns`: Slot::born_ns.
[[nodiscard]] inline std::string make_uid(std::string_view host, ProgramId pid, std::uint64_t born_ns) {
    char text[64];
    std::snprintf(text, sizeof text, "%016llx-%d-%llu", static_cast<unsigned long long>(host_hash(host)),
                  pid.number(), static_cast<unsigned long long>(born_ns));
    return text;
}
[[nodiscard]] inline std::string make_uid(ProgramId pid, std::uint64_t born_ns) {
    return make_uid(host_name(), pid, born_ns);
}

// The time stamp of a uID; 0 if there is none in it.
[[nodiscard]] inline std::uint64_t born_of_uid(const std::string& uid) {
    const std::size_t dash = uid.rfind('-');
    return dash == std::string::npos ? 0 : std::strtoull(uid.c_str() + dash + 1, nullptr, 10);
}

}  // namespace cairn
