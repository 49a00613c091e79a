#include "common/id_list.h"

#include <charconv>
#include <cstdint>
#include <iterator>
#include <system_error>

namespace cairn {
namespace {

constexpr std::int32_t id_limit = 1 << 22;  // PID_MAX_LIMIT

// Takes a number from the front of `text`. 0: there is none that an id could be.
std::int32_t take_id(std::string_view& text) {
    std::int32_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc() || number <= 0 || number > id_limit) return 0;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

bool take(std::string_view& text, char wanted) {
    if (text.empty() || text.front() != wanted) return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

std::string id_list(const std::set<KernelId>& ids) {
    std::string text;
    for (auto first = ids.begin(); first != ids.end();) {
        auto last = first;
        auto next = std::next(first);
        while (next != ids.end() && next->number() == last->number() + 1) last = next++;
        if (!text.empty()) text += ',';
        text += std::to_string(first->number());
        if (last != first) text += '-' + std::to_string(last->number());
        first = next;
    }
    return text;
}

std::optional<std::set<KernelId>> read_id_list(std::string_view text) {
    std::set<KernelId> ids;
    if (text.empty()) return ids;
    do {
        const std::int32_t first = take_id(text);
        const std::int32_t last = first != 0 && take(text, '-') ? take_id(text) : first;
        if (first == 0 || last < first) return std::nullopt;
        for (std::int32_t id = first; id <= last; ++id) ids.insert(KernelId(id));
    } while (take(text, ','));
    if (!text.empty()) return std::nullopt;
    return ids;
}

}  // namespace cairn
