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

constexpr std::size_t most_alike = 8, shown_of_many = 4, longest = 64 * 1024;

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

std::vector<std::string> condense(const std::vector<std::string>& notes) {
    std::vector<std::string> kinds;
    std::map<std::string, std::size_t> count, shown;
    for (const auto& note : notes) ++count[kinds.emplace_back(kind_of_note(note))];
    std::vector<std::string> result;
    std::size_t bytes = 0, left_out = 0;
    for (std::size_t i = 0; i < notes.size(); ++i) {
        const std::size_t alike = count[kinds[i]], number = ++shown[kinds[i]];
        if (alike > most_alike && number > shown_of_many) continue;
        bytes += notes[i].size();
        if (bytes > longest) {
            ++left_out;
            continue;
        }
        result.push_back(notes[i]);
        if (alike > most_alike && number == shown_of_many)
            result.back() += fmt::format(" (and {} like this one)",
                                         human_count(alike - shown_of_many, "other note", "other notes"));
    }
    if (left_out != 0)
        result.push_back(fmt::format("{} left out: there are too many",
                                     human_count(left_out, "other note is", "other notes are")));
    return result;
}

}  // namespace cairn
