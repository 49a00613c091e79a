// Words and tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/printable.h"  // IWYU pragma: export

namespace cairn::inspect {

// "0", "512", "4.0 KiB", "12.3 MiB"; binary units.
[[nodiscard]] std::string human_size(std::uint64_t bytes);
// "850 ns", "1.2 ms", "3.4 s".
[[nodiscard]] std::string human_time(std::int64_t ns);
// Local time, to milliseconds. `ns` since 1970.
[[nodiscard]] std::string human_date(std::int64_t ns);

// "INT", "RTMIN+3"; the number if it has no name.
[[nodiscard]] std::string signal_name(int number);
// Names of a mask (bit n-1 for signal n), "-" for none, "all but KILL STOP ..." where that is shorter.
[[nodiscard]] std::string signal_set(std::uint64_t mask);
// Name of an x86-64 system call, "call 999" if it has none.
[[nodiscard]] std::string call_name(std::int64_t number);

// Columns as wide as their widest cell, two spaces between them, the last one never padded.
class Table {
  public:
    enum class Side { left, right };
    Table(std::string indent, std::vector<Side> sides)
        : indent_(std::move(indent)), sides_(std::move(sides)) {}
    void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    [[nodiscard]] bool empty() const { return rows_.empty(); }
    [[nodiscard]] std::string text() const;

  private:
    std::string indent_;
    std::vector<Side> sides_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace cairn::inspect
