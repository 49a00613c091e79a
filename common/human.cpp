#include "common/human.h"

#include <fmt/format.h>

namespace cairn {
namespace {

std::string three_digits(double value, const char* unit) {
    if (value >= 100) return fmt::format("{:.0f} {}", value, unit);
    if (value >= 10) return fmt::format("{:.1f} {}", value, unit);
    return fmt::format("{:.2f} {}", value, unit);
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
    static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    // 999.5 and not 1024: "1000 KiB" would have four digits.
    while (value >= 999.5 && unit + 1 < std::size(units)) {
        value /= 1024;
        ++unit;
    }
    return three_digits(value, units[unit]);
}

std::string human_duration(std::int64_t ns) {
    if (ns < 0) return "-" + human_duration(ns == INT64_MIN ? INT64_MAX : -ns);
    const auto value = static_cast<double>(ns);
    if (ns < 1000) return fmt::format("{} ns", ns);
    if (value < 999.5e3) return three_digits(value / 1e3, "us");
    if (value < 999.5e6) return three_digits(value / 1e6, "ms");
    const std::int64_t seconds = (ns + 500'000'000) / 1'000'000'000;
    if (seconds < 60) return three_digits(value / 1e9, "s");
    if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
    return fmt::format("{} h {} min", seconds / 3600, seconds % 3600 / 60);
}

std::string human_count(std::uint64_t n, const std::string& one, const std::string& plural) {
    if (n == 1) return "1 " + one;
    return fmt::format("{} {}", n, plural.empty() ? one + "s" : plural);
}

}  // namespace cairn
