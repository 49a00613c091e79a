// The members of a JSON object, as they stand in a line of a trace. Lines as trace_line() writes them (whole
// numbers, true, false, strings without escapes) are read without building a tree, which takes a tenth of the
// time; all others by the JSON library (docs/decisions/0036-json-lines.md).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace cairn::causality {

struct JsonField {
    enum class What { whole, negative, yes, no, text, list, other } what = What::other;
    std::string_view key;
    std::string_view text;
    std::uint64_t whole = 0;
    std::int64_t negative = 0;
    const nlohmann::json* list = nullptr;
    mutable bool taken = false;  // whoever reads the fields knows this one
};

[[nodiscard]] const JsonField* find_field(const std::vector<JsonField>& fields, std::string_view key);

// Good as long as the text is.
class JsonFields {
  public:
    // False: the text is no JSON object.
    [[nodiscard]] bool read(std::string_view text);
    // Without the library; false: not of the simple kind, or no object.
    [[nodiscard]] bool read_simple(std::string_view text);
    [[nodiscard]] bool read_any(std::string_view text);
    [[nodiscard]] std::vector<JsonField>& all() { return fields_; }

  private:
    std::vector<JsonField> fields_;
    nlohmann::json tree_;
};

}  // namespace cairn::causality
