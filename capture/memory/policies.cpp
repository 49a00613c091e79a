#include "capture/memory/policies.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <utility>

#include "common/proc.h"

namespace cairn::capture {
namespace {

// linux/mempolicy.h. Longer names first where one begins with another.
constexpr std::array<std::pair<std::string_view, std::int32_t>, 7> modes = {{{"prefer (many)", 5},
                                                                             {"prefer", 1},
                                                                             {"bind", 2},
                                                                             {"interleave", 3},
                                                                             {"local", 4},
                                                                             {"weighted interleave", 6},
                                                                             {"default", 0}}};
constexpr std::array<std::pair<std::string_view, std::int32_t>, 3> policy_flags = {
    {{"static", 1 << 15}, {"relative", 1 << 14}, {"balancing", 1 << 13}}};
constexpr unsigned most_nodes = 1024;

// "0-1,3"
schema::Bytes parse_nodes(std::string_view text) {
    schema::Bytes nodes;
    const char *at = text.data(), *end = text.data() + text.size();
    while (at < end) {
        unsigned first = 0;
        auto [next, problem] = std::from_chars(at, end, first);
        if (problem != std::errc{} || first >= most_nodes) break;
        unsigned last = first;
        if (next < end && *next == '-') next = std::from_chars(next + 1, end, last).ptr;
        for (unsigned node = first; node <= last && node < most_nodes; ++node) {
            if (nodes.size() <= node / 8) nodes.resize((node / 64 + 1) * 8);
            nodes[node / 8] = static_cast<std::uint8_t>(nodes[node / 8] | 1U << node % 8);
        }
        at = next + 1;
    }
    return nodes;
}

}  // namespace

MemoryPolicy parse_policy(std::string_view text) {
    const auto known =
        std::ranges::find_if(modes, [&](const auto& mode) { return text.starts_with(mode.first); });
    if (known == modes.end() || known->second == 0) return {};
    MemoryPolicy policy{known->second, {}};
    text.remove_prefix(known->first.size());
    const auto colon = text.find(':');
    for (const auto& [name, flag] : policy_flags)
        if (text.substr(0, colon).find(name) != std::string_view::npos) policy.mode |= flag;
    if (colon != std::string_view::npos) policy.nodes = parse_nodes(text.substr(colon + 1));
    return policy;
}

Result<std::map<ProgramAddress, MemoryPolicy>> memory_policies(pid_t pid, const MemoryPolicy& of_thread) {
    auto text = proc::read_file(fmt::format("/proc/{}/numa_maps", pid));
    if (!text) return std::unexpected(std::move(text.error()));
    std::map<ProgramAddress, MemoryPolicy> policies;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        std::uint64_t start = 0;
        const auto [next, problem] = std::from_chars(line.data(), line.data() + line.size(), start, 16);
        if (problem != std::errc{} || next == line.data() + line.size()) continue;
        std::string_view rest(next + 1, static_cast<std::size_t>(line.data() + line.size() - next - 1));
        const auto many = rest.starts_with("prefer (many)") ? std::string_view("prefer (many)").size()
                          : rest.starts_with("weighted ")   ? std::string_view("weighted ").size()
                                                            : 0;
        const auto policy = parse_policy(rest.substr(0, rest.find(' ', many)));
        if (policy.mode != 0 && policy != of_thread) policies[ProgramAddress(start)] = policy;
    }
    return policies;
}

}  // namespace cairn::capture
