// What becomes of sockets that are connected to somebody outside the computation: --external,
// $CAIRN_EXTERNAL.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn {

// Listening sockets come back listening in any case.
enum class ExternalPolicy {
    reset,           // a restart resets the connections
    refuse,          // the checkpoint is refused, and names them
    keep_listening,  // reset; and a listening socket whose port is somebody else's at a restart gets another
                     // port
};

inline constexpr std::array external_policies = {
    std::pair{std::string_view("reset"), ExternalPolicy::reset},
    std::pair{std::string_view("refuse"), ExternalPolicy::refuse},
    std::pair{std::string_view("keep-listening"), ExternalPolicy::keep_listening}};

[[nodiscard]] constexpr std::optional<ExternalPolicy> external_policy(std::string_view name) {
    for (const auto& [known, policy] : external_policies)
        if (known == name) return policy;
    return std::nullopt;
}

}  // namespace cairn
