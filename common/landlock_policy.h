// What becomes of programs that Landlock restricts (landlock(7)): --landlock, $CAIRN_LANDLOCK.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn {

// The kernel shows nobody what a program has forbidden itself by Landlock, so a restart can't forbid it
// again.
enum class LandlockPolicy {
    refuse,  // the checkpoint is refused, and names the thread
    drop,    // a restart brings the program back without, which checkpoint and restart note
};

inline constexpr std::array landlock_policies = {
    std::pair{std::string_view("refuse"), LandlockPolicy::refuse},
    std::pair{std::string_view("drop"), LandlockPolicy::drop}};

// For messages.
inline constexpr const char* landlock_policy_words = "refuse (the checkpoint) or drop (by a restart)";

[[nodiscard]] constexpr std::optional<LandlockPolicy> landlock_policy(std::string_view name) {
    for (const auto& [known, policy] : landlock_policies)
        if (known == name) return policy;
    return std::nullopt;
}

}  // namespace cairn
