#include "witness/report.h"

#include <algorithm>
#include <cctype>

#include "common/error.h"

namespace cairn::witness {
namespace {

// What the kernel says may come from a program (a name, a path): it must not move a terminal's cursor.
std::string legible(const std::optional<std::string>& value) {
    if (!value) return "(not there)";
    std::string text;
    for (const char letter : *value)
        text += std::iscntrl(static_cast<unsigned char>(letter)) != 0 ? '?' : letter;
    return text;
}

}  // namespace

std::string as_line(const Difference& difference) {
    return fmt::format("{}: {} -> {}", legible(difference.name), legible(difference.before),
                       legible(difference.after));
}

std::string report(std::span<const Difference> differences, std::size_t compared) {
    if (differences.empty())
        return fmt::format(
            "cairn: verified: all that the kernel shows of the programs is as it was before the "
            "checkpoint ({} things)\n",
            compared);
    // So many tell the kind.
    constexpr std::size_t most = 40;
    std::string text = fmt::format(
        "cairn: {} of {} things that the kernel shows of the programs {} not as before "
        "the checkpoint (before -> now):\n",
        differences.size(), compared, differences.size() == 1 ? "is" : "are");
    for (const auto& each : differences.first(std::min(most, differences.size())))
        text += "  " + as_line(each) + "\n";
    if (differences.size() > most) text += fmt::format("  and {} more\n", differences.size() - most);
    return text;
}

}  // namespace cairn::witness
