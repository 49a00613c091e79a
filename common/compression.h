// How the pages of images are compressed: --compress of launch, checkpoint and coordinator, $CAIRN_COMPRESS.
// docs/decisions/0038-compression.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn {

// Numbers of the image format.
enum class Codec : std::uint32_t { none = 0, lz4 = 1, zstd = 2 };

struct Compression {
    Codec codec = Codec::none;
    int level = 0;           // of zstd: 1 to 19
    bool automatic = false;  // wherever the disk is behind, and as it is then: codec and level say nothing
    bool operator==(const Compression&) const = default;
};

inline constexpr int zstd_usual_level = 1, zstd_highest_level = 19;
// What a message says of other words.
inline constexpr const char* compression_words = "none, auto, lz4, zstd or zstd:LEVEL (1 to 19)";

// "none", "auto", "lz4", "zstd", "zstd:7". Nothing: it is none of these.
[[nodiscard]] constexpr std::optional<Compression> compression_named(std::string_view name) {
    if (name == "none") return Compression{};
    if (name == "lz4") return Compression{Codec::lz4, 0, false};
    if (name == "auto") return Compression{Codec::none, 0, true};
    if (name == "zstd") return Compression{Codec::zstd, zstd_usual_level, false};
    constexpr std::string_view with_level = "zstd:";
    if (!name.starts_with(with_level)) return std::nullopt;
    const auto digits = name.substr(with_level.size());
    if (digits.empty() || digits.size() > 2) return std::nullopt;
    int level = 0;
    for (const char digit : digits) {
        if (digit < '0' || digit > '9') return std::nullopt;
        level = 10 * level + (digit - '0');
    }
    if (level < 1 || level > zstd_highest_level) return std::nullopt;
    return Compression{Codec::zstd, level, false};
}

}  // namespace cairn
