#include "common/printable.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cairn {
namespace {

struct Character {
    std::size_t length = 1;  // bytes
    std::uint32_t value = 0;
    bool valid = false;  // UTF-8
};

Character first_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return {1, first, true};
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
    std::uint32_t value = first & (0xffU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0U) != 0x80) return {};
        value = value << 6 | (byte(i) & 0x3fU);
    }
    constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = value >= 0xd800 && value < 0xe000;
    if (value < least[length] || value > 0x10ffff || surrogate) return {};
    return {length, value, true};
}

bool is_printable(std::uint32_t value) {
    const bool control = value < 0x20 || (value >= 0x7f && value < 0xa0);  // C0, DEL, C1
    const bool turns = value == 0x61c || (value >= 0x200e && value <= 0x200f) ||
                       (value >= 0x2028 && value <= 0x202e) || (value >= 0x2066 && value <= 0x2069);
    return !control && !turns;
}

// Most text is plain.
bool is_plain_text(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

void append_hex(std::string& to, const char* prefix, std::uint32_t value, int digits) {
    constexpr char hex[] = "0123456789abcdef";
    to += prefix;
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) to += hex[value >> shift & 15];
}

std::string made_printable(std::string_view text, bool lines) {
    if (is_plain_text(text)) return std::string(text);
    std::string result;
    while (!text.empty()) {
        const Character character = first_character(text);
        const bool fine =
            character.valid && (is_printable(character.value) || (lines && character.value == '\n'));
        for (std::size_t i = 0; i < character.length; ++i) {
            if (fine)
                result += text[i];
            else
                append_hex(result, "\\x", static_cast<unsigned char>(text[i]), 2);
        }
        text.remove_prefix(character.length);
    }
    return result;
}

}  // namespace

std::string printable(std::string_view text) {
    return made_printable(text, false);
}

std::string printable_lines(std::string_view text) {
    return made_printable(text, true);
}

std::string first_columns(std::string text, std::size_t columns) {
    std::size_t end = 0;
    for (; end < text.size() && columns > 0; --columns)
        end += first_character(std::string_view(text).substr(end)).length;
    text.resize(end);
    return text;
}

std::string printable_json(std::string text) {
    if (is_plain_text(text)) return text;
    std::string result;
    for (std::string_view rest = text; !rest.empty();) {
        const Character character = first_character(rest);
        // What is below the space stands between values only: strings have it escaped.
        if (character.value < 0x20 || is_printable(character.value))
            result += rest.substr(0, character.length);
        else
            append_hex(result, "\\u", character.value, 4);
        rest.remove_prefix(character.length);
    }
    return result;
}

}  // namespace cairn
