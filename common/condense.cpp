#include "common/condense.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <string_view>

#include "common/human.h"

namespace cairn {
namespace {

constexpr std::size_t most_alike = 3, longest = 64 * 1024;

// What stays of a note when its numbers, names and paths are taken out: words with a digit or a slash, and
// what stands in parentheses or quotation marks.
std::string kind_of_note(std::string_view note) {
    std::string kind;
    while (!note.empty()) {
        const std::string_view word = note.substr(0, note.find(' '));
        const bool plain = std::ranges::none_of(word, [](char letter) {
            return std::isdigit(static_cast<unsigned char>(letter)) != 0 ||
                   std::string_view("/()'\"").find(letter) != std::string_view::npos;
        });
        kind += plain ? word : "#";
        kind += ' ';
        note.remove_prefix(std::min(word.size() + 1, note.size()));
    }
    return kind;
}

}  // namespace

std::vector<std::string> condense(const std::vector<std::string>& notes, std::string_view where) {
    std::vector<std::string> kinds;
    std::map<std::string, std::size_t> count;
    for (const auto& note : notes) ++count[kinds.emplace_back(kind_of_note(note))];
    std::vector<std::string> result;
    for (std::size_t i = 0; i < notes.size(); ++i) {
        std::size_t& alike = count[kinds[i]];
        if (alike == 0) continue;  // told with the first of its kind
        result.push_back(notes[i]);
        if (alike <= most_alike) continue;
        result.back() +=
            fmt::format(" (and {} like this one{}{})", human_count(alike - 1, "other note", "other notes"),
                        where.empty() ? "" : ": ", where);
        alike = 0;
    }
    return result;
}

std::vector<std::string> within_limit(const std::vector<std::string>& notes) {
    std::vector<std::string> result;
    std::size_t bytes = 0;
    for (const auto& note : notes) {
        bytes += note.size();
        if (bytes > longest) break;
        result.push_back(note);
    }
    if (result.size() < notes.size())
        result.push_back(
            fmt::format("{} left out: there are too many",
                        human_count(notes.size() - result.size(), "other note is", "other notes are")));
    return result;
}

}  // namespace cairn
