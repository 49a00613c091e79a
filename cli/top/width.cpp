#include "cli/top/width.h"

#include <clocale>
#include <cwchar>

namespace cairn::top {
namespace {

struct Step {
    std::size_t bytes = 1, columns = 1;
};

// wcwidth(3) knows what is in the C library's tables, if there is a locale of UTF-8; each character is taken
// for one column without.
Step first_step(std::string_view text) {
    static const bool utf8 =
        std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr || std::setlocale(LC_CTYPE, "") != nullptr;
    std::size_t bytes = 1;
    while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0U) == 0x80) ++bytes;
    if (bytes == 1 || !utf8) return {bytes, 1};
    wchar_t wide = 0;
    std::mbstate_t state{};
    if (std::mbrtowc(&wide, std::string(text.substr(0, bytes)).c_str(), bytes, &state) != bytes)
        return {bytes, 1};
    const int columns = ::wcwidth(wide);
    return {bytes, columns < 0 ? 1 : static_cast<std::size_t>(columns)};
}

}  // namespace

std::size_t width(std::string_view text) {
    std::size_t columns = 0;
    while (!text.empty()) {
        const Step step = first_step(text);
        columns += step.columns;
        text.remove_prefix(step.bytes);
    }
    return columns;
}

std::string cut(std::string_view text, std::size_t columns) {
    std::size_t end = 0;
    while (end < text.size()) {
        const Step step = first_step(text.substr(end));
        if (step.columns > columns) break;
        columns -= step.columns;
        end += step.bytes;
    }
    return std::string(text.substr(0, end));
}

std::string fitted(std::string_view text, std::size_t columns) {
    std::string result = cut(text, columns);
    result.append(columns - width(result), ' ');
    return result;
}

}  // namespace cairn::top
