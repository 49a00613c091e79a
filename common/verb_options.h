// Command lines of tools that have several verbs (`cairn causality VERB`, `cairn mpi VERB`): a table of the
// verbs, their help, and their options.
#pragma once

#include <algorithm>
#include <boost/program_options.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn {

// A Verb has at least `name`, `synopsis` (what follows the tool's name) and `text`.
template <class Verbs>
[[nodiscard]] auto find_verb(const Verbs& verbs, std::string_view name) {
    const auto* found =
        std::find_if(std::begin(verbs), std::end(verbs), [&](const auto& each) { return name == each.name; });
    return found == std::end(verbs) ? nullptr : found;
}

template <class Verbs>
[[nodiscard]] std::string list_of_verbs(const Verbs& verbs) {
    std::string text;
    for (const auto& each : verbs) text += fmt::format("  {:<15}{}\n", each.name, each.text);
    return text;
}

// "usage: cairn mpi record ..." with one line for each option.
template <class Verb>
[[nodiscard]] std::string help_of_verb(std::string_view tool, const Verb& verb,
                                       const boost::program_options::options_description& known) {
    std::string text = fmt::format("usage: {} {}\n\n{}\n\n", tool, verb.synopsis, verb.text);
    for (const auto& option : known.options())
        text += fmt::format("  {:<22} {}\n", option->format_name(), option->description());
    return text;
}

// The verb whose help is asked for: --help, -h or help before, behind or in place of a verb; "" for the list.
[[nodiscard]] inline std::optional<std::string> asks_help(std::span<char* const> words) {
    const auto is_help = [](std::string_view word) { return word == "--help" || word == "-h"; };
    if (words.empty()) return std::nullopt;
    if (is_help(words[0]) || std::string_view(words[0]) == "help") return words.size() > 1 ? words[1] : "";
    if (words.size() > 1 && is_help(words[1])) return words[0];
    return std::nullopt;
}

// Code usage, with where to read more; `verb` may be nullptr.
template <class Verb>
[[nodiscard]] std::unexpected<Error> usage_error(std::string_view tool, const Verb* verb,
                                                 std::string_view why) {
    return fail_code(ExitCode::usage, "{}; see `{}{}{} --help`", why, tool, verb != nullptr ? " " : "",
                     verb != nullptr ? verb->name : "");
}

template <class Verb>
[[nodiscard]] std::unexpected<Error> unknown_verb(std::string_view tool, std::string_view name) {
    return usage_error<Verb>(tool, nullptr,
                             name.empty() ? "which verb?" : fmt::format("there is no verb '{}'", name));
}

// Where the words of a command begin, whose options are its own: behind so many words that are neither
// options nor their values, or behind "--".
[[nodiscard]] inline std::size_t begin_of_command(std::span<char* const> words, std::size_t before,
                                                  const boost::program_options::options_description& known) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string_view word = words[i];
        if (word == "--") return i;
        if (word.size() < 2 || word[0] != '-') {
            if (before-- == 0) return i;
            continue;
        }
        if (word.find('=') != std::string_view::npos || (word[1] != '-' && word.size() > 2)) continue;
        const std::string name(word[1] == '-' ? word.substr(2) : word);
        const auto* option = known.find_nothrow(name, false);
        if (option != nullptr && option->semantic()->max_tokens() > 0) ++i;
    }
    return words.size();
}

// Options and the words between them, which go to the option `rest` of `known`. Throws po::error.
[[nodiscard]] inline boost::program_options::variables_map parse_words(
    std::span<char* const> words, const boost::program_options::options_description& known,
    const char* rest) {
    namespace po = boost::program_options;
    po::positional_options_description positional;
    positional.add(rest, -1);
    po::variables_map given;
    po::store(po::command_line_parser(std::vector<std::string>(words.begin(), words.end()))
                  .options(known)
                  .positional(positional)
                  .run(),
              given);
    po::notify(given);
    return given;
}

}  // namespace cairn
