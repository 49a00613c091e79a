// The command `what-if`: a copy of the rank in focus goes on with another value, another message at a
// receive that could have had it, or another request complete first, as far as it can alone; one without it
// does the same. What differs is said.
#include <algorithm>
#include <set>
#include <sstream>

#include "causality/lint/loaded.h"
#include "mpi/debug/commands.h"
#include "mpi/debug/gdb.h"
#include "mpi/debug/requests.h"

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
        const auto value = print_in(copy->process.pid(), expression);
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

// Of a copy that goes as recorded.
Result<Fd> noted_of(const History::Checkpoint& copy, const std::string& where) {
    if (!copy.process.there()) return fail("a copy doesn't come to {}", where);
    CHECK_OK(copy.process.ask({.ask = Ask::noted}));
    auto message = TRY(copy.process.hear());
    if (!message.descriptor) return fail("there is no memory for what was completed");
    return std::move(message.descriptor);
}

// What it brings, or is.
std::string request_text(const Moves& moves, const OtherRequest& request) {
    const Computation& c = moves.computation();
    const bool receive =
        request.closed != causality::none && c.event(request.closed).kind == causality::Kind::receive;
    return moves.text(receive && c.partner(request.closed) != causality::none ? c.partner(request.closed)
                                                                              : request.opened);
}

}  // namespace

Result<Answer> Commands::choices() {
    const Moves& moves = world_.moves();
    const Computation& c = moves.computation();
    const auto choices = next_choice(moves, here());
    const Position limit = choices.empty() ? c.size(world_.focus()) : c.id(choices.front().receive).position;
    AloneWorld* alone = TRY(alone_for("what-if"));
    History* history = TRY(alone->standing(world_.focus()));
    const auto requests = TRY(next_request_choice(*history, moves, here(), limit));
    if (choices.empty() && !requests)
        return fail_code(ExitCode::refused,
                         "rank {} receives nothing behind where it stands that another message could have "
                         "come before, and waits for none of several requests of which another could have "
                         "been complete first",
                         world_.focus());
    const Index first = requests ? requests->got : choices.front().receive;
    Answer answer;
    answer.text = moves.text(first) + "\n";
    answer.json["receive"] = moves.text(first);
    answer.json["at"] = moves.call_at(moves.at(first));
    answer.json["choices"] = nlohmann::json::array();
    answer.json["requests"] = nlohmann::json::array();
    if (!choices.empty() && choices.front().receive == first)
        answer.text += fmt::format("  got {}\n", choices.front().got == causality::none
                                                     ? "a message that the trace doesn't have"
                                                     : moves.text(choices.front().got));
    for (const Race& each : choices) {
        if (each.receive != first) break;
        const std::string why = hindrance(c, each);
        answer.text += fmt::format("  could have had {}{}{}\n", moves.text(each.other),
                                   why.empty() ? "" : "; can't be tried: ", why);
        answer.json["choices"].push_back({{"rank", c.process_of(each.other)},
                                          {"tag", c.event(each.other).tag},
                                          {"text", moves.text(each.other)},
                                          {"hindrance", why}});
    }
    for (const OtherRequest& each : requests ? requests->others : std::vector<OtherRequest>()) {
        const std::string text = request_text(moves, each);
        answer.text += fmt::format("  could have had request {} complete first: {}{}{}\n", each.index, text,
                                   each.hindrance.empty() ? "" : "; can't be tried: ", each.hindrance);
        answer.json["requests"].push_back(
            {{"index", each.index}, {"text", text}, {"hindrance", each.hindrance}});
    }
    return answer;
}

Result<Answer> Commands::what_if_from(const std::string& words, const std::string& expression) {
    const Moves& moves = world_.moves();
    const Computation& c = moves.computation();
    const auto choices = next_choice(moves, here());
    if (choices.empty())
        return fail_code(ExitCode::refused,
                         "rank {} receives nothing behind where it stands that another message could have "
                         "come before",
                         world_.focus());
    const Race race = TRY(chosen(moves, choices, words));
    AloneWorld* alone = TRY(alone_for("what-if"));
    History* history = TRY(alone->standing(world_.focus()));
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

Result<Answer> Commands::what_if_request(const std::string& words, const std::string& expression) {
    const Moves& moves = world_.moves();
    std::istringstream in(words);
    int index = -1;
    std::string rest;
    if (!(in >> index) || index < 0 || in >> rest)
        return fail_code(ExitCode::usage, "what-if request INDEX [; EXPRESSION]");
    AloneWorld* alone = TRY(alone_for("what-if"));
    History* history = TRY(alone->standing(world_.focus()));
    const auto choice =
        TRY(next_request_choice(*history, moves, here(), moves.computation().size(world_.focus())));
    if (!choice)
        return fail_code(ExitCode::refused,
                         "rank {} waits for none of several requests behind where it stands of which another "
                         "could have been complete first",
                         world_.focus());
    const auto found = std::ranges::find(choice->others, index, &OtherRequest::index);
    if (found == choice->others.end())
        return fail_code(
            ExitCode::refused,
            "request {} couldn't have been complete first at {}; what-if choices lists those that "
            "could",
            index, moves.text(choice->got));
    if (!found->hindrance.empty())
        return fail_code(ExitCode::refused, "request {} can't be tried: {}", index, found->hindrance);
    // A copy that goes as recorded notes what is completed when: up to where this one is, and then to its end
    // if it comes to stand there.
    auto as_recorded = TRY(history->standing_copy());
    CHECK_OK(as_recorded.process.ask({.ask = Ask::note, .last = found->request}));
    const State closed = moves.at(found->closed);
    auto before =
        TRY(history->way_of(as_recorded, {moves.behind(closed.rank, moves.call_at(closed)).position, false}));
    Fd noted = TRY(noted_of(as_recorded, moves.text(found->closed)));
    auto recorded = TRY(history->way_of(as_recorded));
    recorded.printed.insert(0, before.printed);
    if (as_recorded.process.there()) noted = TRY(noted_of(as_recorded, "the end"));
    auto changed = TRY(history->standing_copy());
    CHECK_OK(changed.process.ask({.ask = Ask::first, .position = choice->call, .last = found->request},
                                 noted.get()));
    const auto way = TRY(history->way_of(changed));
    Answer answer;
    const std::string text = request_text(moves, *found);
    answer.text = fmt::format("with request {} ({}) complete first at {}, it {}\n", index, text,
                              moves.text(choice->got), how_it_goes(way));
    answer.json = {{"request", index}, {"message", text}, {"receive", moves.text(choice->got)}};
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
        return fail_code(
            ExitCode::usage,
            "what-if VARIABLE = VALUE [; EXPRESSION], or from RANK [tag TAG], or request INDEX, or choices");
    // A variable may be called so.
    if (!assignment.contains('=')) {
        if (assignment == "choices") return choices();
        if (assignment == "from" || assignment.starts_with("from "))
            return what_if_from(assignment.substr(4), expression);
        if (assignment == "request" || assignment.starts_with("request "))
            return what_if_request(assignment.substr(7), expression);
    }
    AloneWorld* alone = TRY(alone_for("what-if"));
    History* history = TRY(alone->standing(world_.focus()));
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
