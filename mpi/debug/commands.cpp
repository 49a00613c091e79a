// Which command a line is, and the movements.
#include "mpi/debug/commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "mpi/record/format.h"
#include "mpi/tool/recovery_line.h"

namespace cairn::mpi::debug {
namespace {

std::string trimmed(const std::string& text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string::npos) return "";
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool all_digits(const std::string& text) {
    return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
}

Result<std::uint64_t> count_of(const std::string& words) {
    if (words.empty()) return 1;
    const std::uint64_t count = all_digits(words) ? std::strtoull(words.c_str(), nullptr, 10) : 0;
    if (count == 0) return fail_code(ExitCode::usage, "'{}': how many events?", words);
    return count;
}

}  // namespace

const std::vector<Commands::Known>& Commands::known() {
    static const std::vector<Known> all = {
        {"help", "", "this", &Commands::help},
        {"to", "[RANK:]EVENT|end|FILE:LINE[:PASS]|FUNCTION[:PASS]",
         "the focus to right behind that call; everybody else to the first consistent state",
         &Commands::go_to},
        {"step", "[N]", "the focus N events on", &Commands::step},
        {"reverse-step", "[N]", "and back", &Commands::reverse_step},
        {"break", "FILE:LINE|FUNCTION", "a place for these two:", &Commands::break_at},
        {"continue", "", "the focus to right behind the next call at a breakpoint, or to the end",
         &Commands::go_on},
        {"reverse-continue", "", "to the one before, or to the beginning", &Commands::reverse_go_on},
        {"delete", "[N]", "the N-th breakpoint, or all, are no more", &Commands::remove_break},
        {"forward", "",
         "along the message that the focus has just sent, or sends next, to right behind its receipt",
         &Commands::forward},
        {"back", "",
         "along the message that the focus has received last, to where its sender was made to send it",
         &Commands::back},
        {"line", "[RANK,...]",
         "all to the recovery line of a record with --checkpoints, after these ranks have failed, or all",
         &Commands::line},
        {"focus", "RANK", "look at this rank; nobody moves", &Commands::look_at},
        {"where", "[RANK]", "where each rank stands: event, call, place, stack", &Commands::where},
        {"why", "[N]", "the messages that led here, the last N of them", &Commands::why},
        {"print", "EXPRESSION", "its value in the focus, by gdb", &Commands::print},
        {"watch", "EXPRESSION", "back to where its value in the focus changed last, by gdb",
         &Commands::watch},
        {"what-if", "VARIABLE = VALUE | from RANK [tag TAG] | request INDEX [; EXPRESSION] | choices",
         "how the focus would go on with that value (by gdb), with a message of that rank at the next "
         "receive that could have had it, or with that request complete first where it waits next for one of "
         "several, up to where it needs what isn't in the record; choices: which could",
         &Commands::what_if},
        {"gdb", "[RANK]", "gdb in a copy of this rank", &Commands::gdb},
        {"cut", "", "how many events of each rank have happened", &Commands::cut},
        {"transit", "", "the messages that are sent and not received here", &Commands::in_transit},
        {"checkpoints", "", "which there are of each rank", &Commands::checkpoints},
        {"waits", "", "how the ranks' records end: in which call, for whom, and in which circle",
         &Commands::waits},
        {"verify", "", "whether each rank is what a straight run from its beginning to here makes of it",
         &Commands::verify},
        {"leave", "DIR",
         "with --live: the job goes on freely from here to its end, and all of it is recorded in DIR",
         &Commands::leave},
        {"quit", "", "", &Commands::quit},
    };
    return all;
}

Result<const Commands::Known*> Commands::find(const std::string& name) {
    const Known* found = nullptr;
    std::string all;
    for (const Known& each : known()) {
        if (each.name == name) return &each;
        if (!std::string_view(each.name).starts_with(name)) continue;
        if (found != nullptr) all += fmt::format("{}{}", all.empty() ? found->name : "", ", ") + each.name;
        found = &each;
    }
    if (found == nullptr) return fail_code(ExitCode::usage, "there is no command '{}': see help", name);
    if (!all.empty()) return fail_code(ExitCode::usage, "'{}': which of {}?", name, all);
    return found;
}

std::vector<std::string> Commands::names() {
    std::vector<std::string> all;
    for (const Known& each : known()) all.emplace_back(each.name);
    return all;
}

bool Commands::is_command(const std::string& line) {
    const std::string words = trimmed(line);
    return std::ranges::any_of(
        known(), [&](const Known& each) { return words.substr(0, words.find_first_of(" \t")) == each.name; });
}

bool Commands::runs_at_terminal(const std::string& line) {
    const std::string words = trimmed(line);
    const auto command = find(words.substr(0, words.find_first_of(" \t")));
    return command && (*command)->method == &Commands::gdb;
}

Result<Answer> Commands::execute(const std::string& line) {
    const std::string words = trimmed(line);
    const std::size_t space = words.find_first_of(" \t");
    const Known* command = TRY(find(words.substr(0, space)));
    const std::string rest = space == std::string::npos ? "" : trimmed(words.substr(space));
    if (*command->arguments == 0 && !rest.empty())
        return fail_code(ExitCode::usage, "{} takes nothing behind it", command->name);
    world_.show_late_output();
    auto answer = (this->*command->method)(rest);
    if (answer) answer->json["command"] = command->name;
    return answer;
}

Result<AloneWorld*> Commands::alone_for(const char* command) const {
    if (auto* alone = dynamic_cast<AloneWorld*>(&world_)) return alone;
    return fail_code(
        ExitCode::refused,
        "{} needs ranks that run alone, and with --live they run together: record with --contents, "
        "and debug without --live",
        command);
}

Result<Answer> Commands::help(const std::string&) {
    Answer answer;
    for (const Known& each : known())
        answer.text +=
            fmt::format("  {:<22} {}\n", fmt::format("{} {}", each.name, each.arguments), each.text);
    answer.text += "Commands may be shortened. An event is a call of the MPI, counted from 1 in each rank.\n";
    return answer;
}

Result<Answer> Commands::quit(const std::string&) {
    over_ = true;
    return Answer();
}

Result<Process> Commands::rank_of(const std::string& word) const {
    const std::uint64_t rank = all_digits(word) ? std::strtoull(word.c_str(), nullptr, 10) : world_.ranks();
    if (rank >= world_.ranks())
        return fail_code(ExitCode::usage, "'{}': the ranks are 0 to {}", word, world_.ranks() - 1);
    return static_cast<Process>(rank);
}

Answer Commands::place() const {
    const Moves& moves = world_.moves();
    const State state = here();
    Answer answer;
    answer.text = world_.text(state.rank) + "\n";
    answer.json = {{"focus", state.rank},
                   {"event", moves.call_at(state)},
                   {"position", state.position},
                   {"cut", world_.cut()},
                   {"place", world_.text(state.rank)}};
    return answer;
}

Result<Answer> Commands::go(State to, const std::string& said) {
    CHECK_OK(world_.go(to));
    Answer answer = place();
    answer.text = said + answer.text;
    if (!said.empty()) answer.json["said"] = said;
    return answer;
}

Result<Answer> Commands::look_at(const std::string& words) {
    const Process rank = TRY(rank_of(words));
    world_.look_at(rank);
    CHECK_OK(error_of(world_.stand(rank)));
    return place();
}

Result<Answer> Commands::go_to(const std::string& words) {
    if (words.empty()) return fail_code(ExitCode::usage, "to where? See help");
    Process rank = world_.focus();
    std::string at = words;
    const std::size_t colon = words.find(':');
    if (colon != std::string::npos && all_digits(words.substr(0, colon))) {
        rank = TRY(rank_of(words.substr(0, colon)));
        at = words.substr(colon + 1);
    }
    const State to = TRY(world_.moves().find(rank, at));
    return go(to);
}

Result<Answer> Commands::step(const std::string& words) {
    const std::uint64_t count = TRY(count_of(words));
    const State to = world_.moves().step(here(), count);
    return go(to, to == here() ? "this is its end\n" : "");
}

Result<Answer> Commands::reverse_step(const std::string& words) {
    const std::uint64_t count = TRY(count_of(words));
    return go(world_.step_back(here(), count),
              here() == world_.first(world_.focus()) ? "this is its beginning\n" : "");
}

Result<Answer> Commands::break_at(const std::string& words) {
    if (words.empty()) {
        Answer answer;
        for (const auto& [number, at] : breaks_) answer.text += fmt::format("{}: {}\n", number, at);
        return answer;
    }
    // Whoever calls there may be in focus later.
    Result<tool::Spot> spot = fail("no ranks");
    for (Process rank = 0; rank < world_.ranks(); ++rank) {
        const Process which = (world_.focus() + rank) % world_.ranks();
        auto found = tool::read_spot(words, world_.moves().computation(), which);
        if (!spot) spot = std::move(found);
        if (spot) break;
    }
    if (!spot) return std::unexpected(spot.error());
    if (spot->event != 0)
        return fail_code(ExitCode::usage, "break FILE:LINE or FUNCTION; to an event: to {}", words);
    breaks_[next_break_] = spot->name;
    Answer answer;
    answer.text = fmt::format("breakpoint {}: {}\n", next_break_, spot->name);
    answer.json = {{"breakpoint", next_break_}};
    ++next_break_;
    return answer;
}

Result<Answer> Commands::remove_break(const std::string& words) {
    if (words.empty()) {
        breaks_.clear();
        return Answer();
    }
    const std::uint64_t number = TRY(count_of(words));
    if (breaks_.erase(static_cast<unsigned>(number)) == 0)
        return fail_code(ExitCode::usage, "there is no breakpoint {}", words);
    return Answer();
}

Result<std::set<std::uint32_t>> Commands::break_places() const {
    std::set<std::uint32_t> places;
    for (const auto& [number, at] : breaks_)
        if (const auto spot = tool::read_spot(at, world_.moves().computation(), world_.focus()))
            places.insert(spot->places.begin(), spot->places.end());
    return places;
}

Result<Answer> Commands::go_on(const std::string&) {
    const auto places = TRY(break_places());
    if (const auto to = world_.moves().next(here(), places)) return go(*to);
    return go(world_.moves().behind(world_.focus(), world_.moves().calls(world_.focus())),
              breaks_.empty() ? "" : "no breakpoint comes behind this\n");
}

Result<Answer> Commands::reverse_go_on(const std::string&) {
    const auto places = TRY(break_places());
    if (const auto to = world_.previous(here(), places)) return go(*to);
    return go(world_.first(world_.focus()), breaks_.empty() ? "" : "no breakpoint comes before this\n");
}

Result<Answer> Commands::line(const std::string& words) {
    const auto c = TRY(tool::trace_with_checkpoints(folder_));
    const auto failed = TRY(tool::failed_ranks(words, world_.ranks()));
    const tool::RecoveryLine found = tool::recovery_line_of(c, failed);
    Cut cut;
    std::string said;
    const Computation& known = world_.moves().computation();
    for (Process rank = 0; rank < world_.ranks(); ++rank) {
        const tool::Standpoint& each = found.ranks[rank];
        const bool at_end = each.what == tool::Standpoint::What::end;
        if (!at_end && each.position > known.size(rank))
            return fail_code(ExitCode::damaged,
                             "{}/trace.{} is of another run than the record: its checkpoint is behind {} "
                             "events, and the record has {}",
                             folder_, rank, each.position, known.size(rank));
        cut.push_back(at_end ? known.size(rank) : each.position);
        said += fmt::format("rank {}: {}\n", rank, tool::text_of(each));
    }
    CHECK_OK(world_.stand_at(cut));
    Answer answer = place();
    answer.text = said + answer.text;
    answer.json["said"] = said;
    return answer;
}

Result<Answer> Commands::leave(const std::string& words) {
    auto* live = dynamic_cast<live::LiveWorld*>(&world_);
    if (live == nullptr)
        return fail_code(ExitCode::refused,
                         "leave: a rank alone has nobody to go on with; the whole job has, with --live");
    if (words.empty()) return fail_code(ExitCode::usage, "leave into which folder?");
    std::error_code ignored;
    const std::string folder = std::filesystem::absolute(words, ignored).lexically_normal().string();
    if (::access(record_path(folder, 0).c_str(), F_OK) == 0)
        return fail_code(ExitCode::refused, "{} has a record already: give another folder", folder);
    const std::string how = TRY(live->leave(folder));
    Answer answer = place();
    answer.json["record"] = folder;
    answer.json["end"] = how;
    answer.text = fmt::format(
        "the job has gone on by itself, to its end ({}), and is recorded in {}; here is again\n{}", how,
        folder, answer.text);
    return answer;
}

Result<Answer> Commands::begin(const std::string& from) {
    CHECK_OK(world_.go(world_.first(0)));
    return from.empty() ? place() : line(from == "all" ? "" : from);
}

Result<Answer> Commands::forward(const std::string&) {
    Index sent = causality::none;
    const State to = TRY(world_.moves().forward(here(), sent));
    return go(to, fmt::format("along {}\n", world_.moves().text(sent)));
}

Result<Answer> Commands::back(const std::string&) {
    Index sent = causality::none;
    const State to = TRY(world_.moves().back(here(), sent));
    return go(to, fmt::format("along {}\n", world_.moves().text(sent)));
}

}  // namespace cairn::mpi::debug
