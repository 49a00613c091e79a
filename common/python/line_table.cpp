#include "common/python/line_table.h"

#include <cstddef>

namespace cairn::python {
namespace {

using Table = std::span<const std::uint8_t>;

// Pairs of how many bytes, and how many lines on.
int line_in_lnotab(Table table, int line, std::uint64_t at) {
    std::uint64_t behind = 0;
    for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
        behind += table[i];
        if (behind > at) break;
        line += static_cast<std::int8_t>(table[i + 1]);
    }
    return line;
}

// Pairs of how many bytes belong to a line, and how many lines on that is; -128: to none.
int line_in_pairs(Table table, int line, std::uint64_t at) {
    constexpr std::int8_t none = -128;
    std::uint64_t end = 0;
    for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
        const auto delta = static_cast<std::int8_t>(table[i + 1]);
        if (delta != none) line += delta;
        end += table[i];
        if (at < end) return delta == none ? 0 : line;
    }
    return 0;
}

class Locations {
  public:
    explicit Locations(Table table) : table_(table) {}

    int line_at(int line, std::uint64_t at) {
        std::uint64_t end = 0;
        while (at_ < table_.size()) {
            const unsigned first = table_[at_++];
            const unsigned code = first >> 3 & 15;
            constexpr std::uint64_t instruction = 2;
            end += ((first & 7) + 1) * instruction;
            line += lines_on(code);
            if (at < end) return code == none ? 0 : line;
            // The columns that are left.
            while (at_ < table_.size() && (table_[at_] & 0x80) == 0) ++at_;
        }
        return 0;
    }

  private:
    static constexpr unsigned same_line = 10, two_on = 12, without_columns = 13, whole = 14, none = 15;

    int lines_on(unsigned code) {
        if (code >= same_line && code <= two_on) return static_cast<int>(code - same_line);
        if (code != without_columns && code != whole) return 0;
        const std::uint64_t value = number();
        const auto lines = static_cast<int>(value >> 1);
        return (value & 1) != 0 ? -lines : lines;
    }

    // Six bits in each byte, the lowest first; the last one is without bit 6.
    std::uint64_t number() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; at_ < table_.size() && shift < 60; shift += 6) {
            const std::uint8_t byte = table_[at_++];
            value |= std::uint64_t{byte & 63U} << shift;
            if ((byte & 64) == 0) break;
        }
        return value;
    }

    Table table_;
    std::size_t at_ = 0;
};

}  // namespace

int line_of(unsigned minor, std::span<const std::uint8_t> table, int first_line, std::uint64_t at) {
    if (minor < 10) return line_in_lnotab(table, first_line, at);
    if (minor == 10) return line_in_pairs(table, first_line, at);
    return Locations(table).line_at(first_line, at);
}

}  // namespace cairn::python
