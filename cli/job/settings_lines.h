// Settings in files: lines NAME=VALUE.
#pragma once

#include <charconv>
#include <functional>
#include <optional>
#include <string>

#include "common/error.h"

namespace cairn::job {

// Where '#' begins a comment: anywhere in a line, or only at its beginning (values may have it).
enum class Comments { anywhere, whole_lines };

// False if there is no such setting, or it can't have this value.
using TakeSetting = std::function<bool(const std::string& name, const std::string& value)>;

// Errors name `where` (the file), the line, and `page`, the document that lists the settings.
[[nodiscard]] Result<> take_lines(const std::string& text, const std::string& where, const std::string& page,
                                  Comments comments, const TakeSetting& take);

// None where there is no such file.
[[nodiscard]] Result<std::optional<std::string>> text_of_file(const std::string& path);

// The whole text is a number, from 0 to 100,000,000.
template <class Number>
bool take_number(const std::string& text, Number& number) {
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    return problem == std::errc() && end == text.data() + text.size() && number >= 0 && number <= 1e8;
}

}  // namespace cairn::job
