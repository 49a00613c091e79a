// The command `what-if`: a copy of the rank in focus goes on with another value, or another message at a
// receive that could have had it, as far as it can alone; one without it does the same. What differs is said.
#include <set>
#include <sstream>

#include "causality/lint/loaded.h"
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
    std::string text = line == std::string::npos ? departure : departure.substr(line + 1);
    while (text.ends_with('\n')) text.pop_back();
    return text;
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

// What two copies have printed otherwise, and what an expression is in the end.
void compare_ways(Answer& answer, const History::Way& way, const History::Way& recorded,
                  const History::Checkpoint& changed, const History::Checkpoint& as_recorded,
                  const std::string& expression) {
    if (!answer.text.ends_with('\n')) answer.text += '\n';
    const auto now = printed_lines(way.printed), before = printed_lines(recorded.printed);
    const auto more = only_in(now, before), missing = only_in(before, now);
    for (const std::string& line : more) answer.text += fmt::format("  prints      {}\n", line);
    for (const std::string& line : missing) answer.text += fmt::format("  instead of  {}\n", line);
    answer.json.update({{"event", way.report.event},
                        {"departs", way.end.why == Why::departed},
                        {"ends", way.end.why == Why::there},
                        {"how", way.end.text},
                        {"prints", more},
                        {"instead_of", missing}});
    if (expression.empty()) return;
    for (const auto& [name, copy] : {std::pair("with", &changed), std::pair("without", &as_recorded)}) {
        if (!copy->process.there()) continue;
        const auto value = print_in(copy->process, expression);
        answer.text +=
            fmt::format("  {} it{}: {} = {}\n", name, name == std::string_view("with") ? "   " : "",
                        expression, value ? *value : value.error().what);
        answer.json[name] = value ? *value : "";
    }
}

using causality::Race;

// The next receive of the rank that could have had another message, with all of these.
std::vector<Race> next_choice(const Moves& moves, State from) {
    const Computation& c = moves.computation();
    std::vector<Race> next;
    for (const Race& each : causality::races_of(c, true)) {
        const auto id = c.id(each.receive);
        if (id.process != from.rank || id.position < from.position) continue;
        if (!next.empty() && each.receive > next.front().receive) continue;
        if (!next.empty() && each.receive < next.front().receive) next.clear();
        next.push_back(each);
    }
    return next;
}

// Why it can't be tried, or nothing.
std::string hindrance(const Computation& c, const Race& race) {
    if (c.event(race.receive).kind != causality::Kind::receive)
        return "a probe has found the message, and its receive asks for that one";
    if (c.partner(race.other) == causality::none)
        return "it is never received, so the record doesn't have what is in it";
    return "";
}

Result<Race> chosen(const Moves& moves, const std::vector<Race>& choices, const std::string& words) {
    const Computation& c = moves.computation();
    std::istringstream in(words);
    std::string rank, word, tag, rest;
    in >> rank >> word >> tag >> rest;
    const auto is_number = [](const std::string& text) {
        return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
    };
    const bool with_tag = word == "tag";
    if (!is_number(rank) || (!word.empty() && !with_tag) || (with_tag && !is_number(tag)) || !rest.empty())
        return fail_code(ExitCode::usage, "what-if from RANK [tag TAG] [; EXPRESSION]");
    const Race* found = nullptr;
    for (const Race& each : choices) {
        if (c.process_of(each.other) != static_cast<Process>(std::stoul(rank))) continue;
        if (with_tag && c.event(each.other).tag != std::stol(tag)) continue;
        if (found != nullptr && c.event(found->other).tag != c.event(each.other).tag)
            return fail_code(
                ExitCode::usage,
                "messages of rank {} with several tags could have come: say which by what-if from "
                "{} tag TAG (what-if choices lists them)",
                rank, rank);
        if (found == nullptr) found = &each;
    }
    if (found == nullptr)
        return fail_code(ExitCode::refused,
                         "no message from rank {}{} could have come at {}; what-if choices lists those that "
                         "could",
                         rank, with_tag ? " with tag " + tag : "", moves.text(choices.front().receive));
    if (const std::string why = hindrance(c, *found); !why.empty())
        return fail_code(ExitCode::refused, "{} can't be tried: {}", moves.text(found->other), why);
    return *found;
}

// The message that the receipt has brought, as a file.
Result<Fd> message_of(History& history, const Moves& moves, Index receipt) {
    auto copy = TRY(history.standing_copy());
    CHECK_OK(copy.process.ask({.ask = Ask::keep}));
    const State behind = moves.at(receipt);
    const Computation& c = moves.computation();
    // Another event of the same call is next: it stands within.
    const bool within = behind.position < c.size(behind.rank) &&
                        c.event(c.first(behind.rank) + behind.position).has(causality::Flag::joined);
    static_cast<void>(TRY(history.way_of(copy, {behind.position, within})));
    if (!copy.process.there()) return fail("rank {} doesn't come to {}", behind.rank, moves.text(receipt));
    CHECK_OK(copy.process.ask({.ask = Ask::message}));
    auto message = TRY(copy.process.hear());
    if (!message.descriptor) return fail("the record doesn't say what {} got", moves.text(receipt));
    return std::move(message.descriptor);
}

}  // namespace

Result<Answer> Commands::choices() {
    const Moves& moves = world_.moves();
    const Computation& c = moves.computation();
    const auto choices = next_choice(moves, here());
    if (choices.empty())
        return fail_code(ExitCode::refused,
                         "rank {} receives nothing behind where it stands that another message could have "
                         "come before",
                         world_.focus());
    Answer answer;
    const Race& first = choices.front();
    answer.text = fmt::format(
        "{}\n  got {}\n", moves.text(first.receive),
        first.got == causality::none ? "a message that the trace doesn't have" : moves.text(first.got));
    answer.json["receive"] = moves.text(first.receive);
    answer.json["at"] = moves.call_at(moves.at(first.receive));
    answer.json["choices"] = nlohmann::json::array();
    for (const Race& each : choices) {
        const std::string why = hindrance(c, each);
        answer.text += fmt::format("  could have had {}{}{}\n", moves.text(each.other),
                                   why.empty() ? "" : "; can't be tried: ", why);
        answer.json["choices"].push_back({{"rank", c.process_of(each.other)},
                                          {"tag", c.event(each.other).tag},
                                          {"text", moves.text(each.other)},
                                          {"hindrance", why}});
    }
    return answer;
}

Result<Answer> Commands::what_if_from(const std::string& words, const std::string& expression) {
    const Moves& moves = world_.moves();
    const Computation& c = moves.computation();
    const auto choices = next_choice(moves, here());
    if (choices.empty()) return this->choices();
    const Race race = TRY(chosen(moves, choices, words));
    History* history = TRY(world_.standing(world_.focus()));
    const Index receipt = c.partner(race.other);
    const Fd message = TRY(message_of(*history, moves, receipt));
    auto changed = TRY(history->standing_copy());
    auto as_recorded = TRY(history->standing_copy());
    CHECK_OK(changed.process.ask(
        {.ask = Ask::otherwise, .position = c.id(race.receive).position, .last = c.id(receipt).position},
        message.get()));
    const auto way = TRY(history->way_of(changed));
    const auto recorded = TRY(history->way_of(as_recorded));
    Answer answer;
    answer.text = fmt::format("with the message of {} at {}, rank {} {}\n", moves.text(race.other),
                              moves.text(race.receive), world_.focus(), how_it_goes(way));
    answer.json = {{"message", moves.text(race.other)}, {"receive", moves.text(race.receive)}};
    compare_ways(answer, way, recorded, changed, as_recorded, expression);
    return answer;
}

Result<Answer> Commands::what_if(const std::string& words) {
    const std::size_t semicolon = words.find(';');
    std::string assignment = words.substr(0, semicolon);
    std::string expression = semicolon == std::string::npos ? "" : words.substr(semicolon + 1);
    expression.erase(0, expression.find_first_not_of(" \t"));
    assignment.erase(assignment.find_last_not_of(" \t") + 1);
    if (assignment.empty())
        return fail_code(ExitCode::usage,
                         "what-if VARIABLE = VALUE [; EXPRESSION], or from RANK [tag TAG], or choices");
    // A variable may be called so.
    if (!assignment.contains('=')) {
        if (assignment == "choices") return choices();
        if (assignment == "from" || assignment.starts_with("from "))
            return what_if_from(assignment.substr(4), expression);
    }
    History* history = TRY(world_.standing(world_.focus()));
    auto changed = TRY(history->standing_copy());
    auto as_recorded = TRY(history->standing_copy());
    const Assigned assigned = TRY(assign_in(changed.process, assignment));
    const auto way = TRY(history->way_of(changed));
    const auto recorded = TRY(history->way_of(as_recorded));
    Answer answer;
    answer.text = fmt::format("with {}= {} instead of {}, rank {} {}\n", assigned.what, assigned.after,
                              assigned.before, world_.focus(), how_it_goes(way));
    answer.json = {{"before", assigned.before}, {"after", assigned.after}};
    compare_ways(answer, way, recorded, changed, as_recorded, expression);
    return answer;
}

}  // namespace cairn::mpi::debug
