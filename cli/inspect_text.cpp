#include "cli/inspect_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>

namespace cairn::inspect {
namespace {

constexpr std::array < std::pair<int, const char*>,
#include "inspect_calls.inc"

    // Bytes that begin a character: as wide as people see it, but for wide and combining ones.
    std::size_t width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

}  // namespace

std::string human_size(std::uint64_t bytes) {
    static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return fmt::format("{}", bytes);
    std::size_t unit = 0;
    auto value = static_cast<double>(bytes) / 1024;
    // What would be shown as 1024.0 is 1.0 of the next.
    while (value >= 1023.95 && unit + 1 < std::size(units)) value /= 1024, ++unit;
    return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string human_time(std::int64_t ns) {
    const auto value = static_cast<double>(ns);
    const double size = std::abs(value);
    if (size < 1e3) return fmt::format("{} ns", ns);
    if (size < 999.95e3) return fmt::format("{:.1f} us", value / 1e3);
    if (size < 999.95e6) return fmt::format("{:.1f} ms", value / 1e6);
    return fmt::format("{:.1f} s", value / 1e9);
}

std::string human_date(std::int64_t ns) {
    const std::time_t seconds = ns / 1'000'000'000;
    std::tm parts{};
    char text[64];
    if (::localtime_r(&seconds, &parts) == nullptr ||
        std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        return fmt::format("{} ns", ns);
    return fmt::format("{}.{:03}", text, std::abs(ns / 1'000'000 % 1000));
}

std::string signal_name(int number) {
    if (const char* name = number > 0 && number < 32 ? ::sigabbrev_np(number) : nullptr) return name;
    // The kernel's numbers: 32 and 33 are libc's own.
    if (number >= 34 && number <= 64) return number == 34 ? "RTMIN" : fmt::format("RTMIN+{}", number - 34);
    return fmt::format("{}", number);
}

std::string signal_set(std::uint64_t mask) {
    if (mask == 0) return "-";
    if (mask == ~std::uint64_t{0}) return "all";
    const bool inverse = std::popcount(mask) > 40;
    std::string names = inverse ? "all but" : "";
    for (int number = 1; number <= 64; ++number)
        if (((mask >> (number - 1) & 1) != 0) != inverse)
            names += (names.empty() ? "" : " ") + signal_name(number);
    return names;
}

std::string call_name(std::int64_t number) {
    for (const auto& [each, name] : call_names)
        if (each == number) return name;
    return fmt::format("call {}", number);
}

std::string Table::text() const {
    std::vector<std::size_t> widths(sides_.size());
    for (const auto& row : rows_)
        for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
            widths[i] = std::max(widths[i], width(row[i]));
    std::string result;
    for (const auto& row : rows_) {
        std::string line = indent_;
        for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
            const std::string gap(widths[i] - width(row[i]), ' ');
            if (i > 0) line += "  ";
            line += sides_[i] == Side::right ? gap + row[i] : row[i] + gap;
        }
        line.erase(line.find_last_not_of(' ') + 1);
        result += line + "\n";
    }
    return result;
}

}  // namespace cairn::inspect
