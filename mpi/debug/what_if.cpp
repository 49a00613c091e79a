// The command `what-if`: a copy of the rank in focus goes on with another value, as far as it can alone, and
// one without it does the same. What differs is said.
#include <algorithm>
#include <set>
#include <sstream>

#include "mpi/debug/commands.h"
#include "mpi/debug/gdb.h"

namespace cairn::mpi::debug {
namespace {

std::vector<std::string> printed_lines(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

// What only one of the two has printed, in its order.
std::vector<std::string> only_in(const std::vector<std::string>& these,
                                 const std::vector<std::string>& those) {
    const std::multiset<std::string> all(those.begin(), those.end());
    std::multiset<std::string> left = all;
    std::vector<std::string> found;
    for (const std::string& line : these) {
        const auto same = left.find(line);
        if (same == left.end())
            found.push_back(line);
        else
            left.erase(same);
    }
    return found;
}

// What the interposer says of a departure, without its first line.
std::string both_ways(const std::string& departure) {
    const std::size_t line = departure.find('\n');
    return line == std::string::npos ? departure : departure.substr(line + 1);
}

std::string how_it_goes(const History::Way& way) {
    const std::string& text = way.end.text;
    switch (way.end.why) {
        case Why::end:
            return fmt::format("makes all calls of the record, to its end (event {})", way.report.event);
        case Why::cut:
            return fmt::format("makes all calls of the record, which breaks off behind event {}",
                               way.report.event);
        case Why::departed:
            // Seen at the end only, by the hash of all: tags and lengths aren't compared call by call.
            if (text.contains("recorded: order "))
                return "makes the calls of the record, but with another tag, length or type";
            return fmt::format("goes another way than the record at event {}:\n{}", way.report.event,
                               both_ways(text));
        case Why::there:
            return text;
    }
    return "";
}

}  // namespace

Result<Answer> Commands::what_if(const std::string& words) {
    const std::size_t semicolon = words.find(';');
    const std::string assignment = words.substr(0, semicolon);
    std::string expression = semicolon == std::string::npos ? "" : words.substr(semicolon + 1);
    expression.erase(0, expression.find_first_not_of(" \t"));
    if (assignment.find_first_not_of(" \t") == std::string::npos)
        return fail_code(ExitCode::usage, "what-if VARIABLE = VALUE [; EXPRESSION]");
    History* history = TRY(world_.standing(world_.focus()));
    auto changed = TRY(history->standing_copy());
    auto as_recorded = TRY(history->standing_copy());
    const Assigned assigned = TRY(assign_in(changed.process, assignment));
    const auto way = TRY(history->way_of(changed));
    const auto recorded = TRY(history->way_of(as_recorded));

    Answer answer;
    answer.text = fmt::format("with {}= {} instead of {}, rank {} {}\n", assigned.what, assigned.after,
                              assigned.before, world_.focus(), how_it_goes(way));
    if (!answer.text.ends_with('\n')) answer.text += '\n';
    const auto now = printed_lines(way.printed), before = printed_lines(recorded.printed);
    const auto more = only_in(now, before), missing = only_in(before, now);
    for (const std::string& line : more) answer.text += fmt::format("  prints      {}\n", line);
    for (const std::string& line : missing) answer.text += fmt::format("  instead of  {}\n", line);
    answer.json = {{"before", assigned.before},
                   {"after", assigned.after},
                   {"event", way.report.event},
                   {"departs", way.end.why == Why::departed},
                   {"ends", way.end.why == Why::there},
                   {"how", way.end.text},
                   {"prints", more},
                   {"instead_of", missing}};
    if (expression.empty()) return answer;
    for (const auto& [name, copy] : {std::pair("with", &changed), std::pair("without", &as_recorded)}) {
        if (!copy->process.there()) continue;
        const auto value = print_in(copy->process, expression);
        answer.text +=
            fmt::format("  {} it{}: {} = {}\n", name, name == std::string_view("with") ? "   " : "",
                        expression, value ? *value : value.error().what);
        answer.json[name] = value ? *value : "";
    }
    return answer;
}

}  // namespace cairn::mpi::debug
