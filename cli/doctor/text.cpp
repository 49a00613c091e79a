#include "cli/doctor/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/printable.h"

namespace cairn::doctor {
namespace {

constexpr std::array groups{Group::checkpoint, Group::restart, Group::speed, Group::storage, Group::limits};

std::string_view word_for(Group group) {
    constexpr std::array words{"checkpoint", "restart", "speed", "storage", "limits"};
    return words.at(static_cast<std::size_t>(group));
}

std::string_view word_for(State state) {
    constexpr std::array words{"ok", "slower", "note", "missing"};
    return words.at(static_cast<std::size_t>(state));
}

std::string_view colour_of(State state) {
    constexpr std::array colours{"\033[32m", "\033[33m", "\033[36m", "\033[31m"};
    return colours.at(static_cast<std::size_t>(state));
}

long how_many(const std::vector<Line>& lines, State state) {
    return std::ranges::count(lines, state, &Line::state);
}

std::string text_of_line(const Line& line, bool coloured) {
    constexpr std::string_view indent = "                              ";
    std::string text =
        fmt::format("  {}{:<8}{} {:<18} {}\n", coloured ? colour_of(line.state) : "", word_for(line.state),
                    coloured ? "\033[0m" : "", line.name, printable(line.found));
    if (!line.meaning.empty()) text += fmt::format("{}{}\n", indent, printable(line.meaning));
    if (!line.remedy.empty()) text += fmt::format("{}to do: {}\n", indent, printable(line.remedy));
    return text;
}

std::string needed_names(const std::vector<Line>& lines) {
    std::string names;
    for (const auto& line : lines)
        if (line.needed) names += (names.empty() ? "" : ", ") + line.name;
    return names;
}

std::string counted(long slower, long missing) {
    if (slower == 0 && missing == 0) return "nothing is slower, nothing is missing";
    if (slower == 0) return fmt::format("{} {} missing", missing, missing == 1 ? "thing is" : "things are");
    std::string text = fmt::format("{} {} slower", slower, slower == 1 ? "thing is" : "things are");
    if (missing != 0) text += fmt::format(", {} {} missing", missing, missing == 1 ? "is" : "are");
    return text;
}

}  // namespace

bool works(const std::vector<Line>& lines) {
    return std::ranges::none_of(lines, &Line::needed);
}

std::string verdict(const std::vector<Line>& lines, const Setting& setting) {
    if (!works(lines))
        return fmt::format("cairn does not work here as {}; what it needs and is missing: {}", setting.who,
                           needed_names(lines));
    const auto rehearsal = std::ranges::find(lines, "rehearsal", &Line::name);
    const bool proved = rehearsal == lines.end() || rehearsal->state == State::ok;
    return fmt::format("cairn {} here as {}{}; {}", proved ? "works" : "should work", setting.who,
                       proved ? "" : " (it was not tried to the end)",
                       counted(how_many(lines, State::slower), how_many(lines, State::missing)));
}

std::string report(const std::vector<Line>& lines, const Setting& setting, bool coloured) {
    std::string text;
    for (const Group group : groups) {
        text += fmt::format("{}{}\n", text.empty() ? "" : "\n", word_for(group));
        for (const auto& line : lines)
            if (line.group == group) text += text_of_line(line, coloured);
    }
    return text + "\n" + verdict(lines, setting) + "\n";
}

nlohmann::json as_json(const std::vector<Line>& lines, const Setting& setting) {
    auto checks = nlohmann::json::array();
    for (const auto& line : lines)
        checks.push_back({{"group", word_for(line.group)},
                          {"name", line.name},
                          {"state", word_for(line.state)},
                          {"needed", line.needed},
                          {"found", line.found},
                          {"meaning", line.meaning},
                          {"remedy", line.remedy}});
    return {{"works", works(lines)},
            {"verdict", verdict(lines, setting)},
            {"uid", setting.user},
            {"ckptdir", setting.folder},
            {"slower", how_many(lines, State::slower)},
            {"missing", how_many(lines, State::missing)},
            {"checks", std::move(checks)}};
}

}  // namespace cairn::doctor
