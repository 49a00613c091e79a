// What the two ends of a channel prove to each other: 32 random bytes, written as 64 hexadecimal digits.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"

namespace cairn {

struct Key {
    std::array<std::uint8_t, 32> bytes{};

    [[nodiscard]] static Result<Key> random();
    [[nodiscard]] std::string text() const;
    // Errors: ExitCode::refused, with what is wrong and never with the key.
    [[nodiscard]] static Result<Key> parse(std::string_view text, const std::string& where);
    // Refused if others than its owner may read the file, or another than us or root owns it.
    [[nodiscard]] static Result<Key> load(const std::string& path);
    // A new one, in a file that only its owner may read. One that is there already is used: a root that
    // starts again has relays that know it.
    [[nodiscard]] static Result<Key> load_or_make(const std::string& path);
};

}  // namespace cairn
