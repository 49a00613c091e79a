// The commands that look: where all stand and why, values, gdb.
#include <cstdlib>
#include <fstream>

#include "mpi/debug/commands.h"
#include "mpi/debug/gdb.h"
#include "mpi/debug/verify.h"

namespace cairn::mpi::debug {
namespace {

std::uint64_t resident_of(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
    std::uint64_t bytes = 0;
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("Pss:")) bytes = std::strtoull(line.c_str() + 4, nullptr, 10) * 1024;
    return bytes;
}

}  // namespace

Result<Answer> Commands::where(const std::string& words) {
    Process first = 0, end = world_.ranks();
    if (!words.empty()) {
        first = TRY(rank_of(words));
        end = first + 1;
    }
    Answer answer;
    answer.json = {{"focus", world_.focus()}, {"ranks", nlohmann::json::array()}};
    for (Process rank = first; rank < end; ++rank) {
        const World::Stand stand = TRY(world_.stand(rank));
        answer.text += fmt::format("{} {}\n", rank == world_.focus() ? "*" : " ", world_.text(rank));
        for (const std::string& frame : stand.stack) answer.text += fmt::format("      {}\n", frame);
        answer.json["ranks"].push_back({{"rank", rank},
                                        {"event", stand.event},
                                        {"position", stand.position},
                                        {"within", stand.within},
                                        {"pid", stand.pid},
                                        {"frame", stand.frame},
                                        {"place", world_.text(rank)},
                                        {"stack", stand.stack}});
    }
    return answer;
}

Result<Answer> Commands::why(const std::string& words) {
    std::uint64_t most = 10;
    if (!words.empty()) {
        most = std::strtoull(words.c_str(), nullptr, 10);
        if (most == 0) return fail_code(ExitCode::usage, "'{}': how many messages?", words);
    }
    const Moves& moves = world_.moves();
    Answer answer;
    answer.json["chain"] = nlohmann::json::array();
    State at = here();
    for (; most > 0; --most) {
        const auto cause = moves.cause(at);
        if (!cause) {
            answer.text += fmt::format("rank {} had received nothing before\n", at.rank);
            break;
        }
        answer.text += moves.text(cause->receipt) + "\n";
        const State receipt = moves.at(cause->receipt);
        nlohmann::json link = {
            {"rank", receipt.rank}, {"event", moves.call_at(receipt)}, {"text", moves.text(cause->receipt)}};
        at = {receipt.rank, receipt.position - 1};
        if (cause->sent != causality::none) {
            const State sent = moves.at(cause->sent);
            answer.text += fmt::format("  from {}\n", moves.text(cause->sent));
            link["from"] = {
                {"rank", sent.rank}, {"event", moves.call_at(sent)}, {"text", moves.text(cause->sent)}};
            at = {sent.rank, sent.position - 1};
        }
        answer.json["chain"].push_back(link);
    }
    return answer;
}

Result<Answer> Commands::print(const std::string& words) {
    if (words.empty()) return fail_code(ExitCode::usage, "print what?");
    const auto looked = TRY(world_.look_into(world_.focus()));
    const std::string value = TRY(print_in(looked.pid, words));
    Answer answer;
    answer.text = value + "\n";
    answer.json["value"] = value;
    return answer;
}

// From checkpoint to checkpoint, the last first: each is run up to the next under a watchpoint.
Result<Answer> Commands::watch(const std::string& words) {
    if (words.empty()) return fail_code(ExitCode::usage, "watch what?");
    const Process rank = world_.focus();
    AloneWorld* alone = TRY(alone_for("watch"));
    History* history = TRY(alone->standing(rank));
    const auto copy = TRY(history->copy());
    const Watched watched = TRY(watched_in(copy, words));
    Spot end = history->spot();
    const auto& checkpoints = history->checkpoints();
    for (std::size_t i = checkpoints.size(); i-- > 0;) {
        if (!(checkpoints[i].spot < end)) continue;
        auto runs = TRY(history->copy_of(checkpoints[i]));
        const auto change = TRY(last_change(
            runs, watched, {.ask = Ask::run, .within = end.within ? 1U : 0U, .position = end.position}));
        end = checkpoints[i].spot;
        if (!change) continue;
        const State to{rank, static_cast<Position>(change->position)};
        const std::uint64_t event = world_.moves().call_at(to);
        auto answer =
            TRY(go(to, fmt::format("{}: {} became {} at {}, between events {} and {}\n", words,
                                   change->before, change->after, change->where, event, event + 1)));
        answer.json.update({{"before", change->before},
                            {"after", change->after},
                            {"at", change->where},
                            {"value", watched.value}});
        return answer;
    }
    const Position first = world_.beginning()[rank];
    return fail_code(ExitCode::refused, "{} is {} from {} on", words, watched.value,
                     first == 0 ? "before the first event"
                                : fmt::format("behind event {}, where the record begins,",
                                              world_.moves().call_at({rank, first})));
}

Result<Answer> Commands::gdb(const std::string& words) {
    Process rank = world_.focus();
    if (!words.empty()) rank = TRY(rank_of(words));
    const auto looked = TRY(world_.look_into(rank));
    CHECK_OK(open_gdb(looked.pid));
    return place();
}

Result<Answer> Commands::cut(const std::string&) {
    Answer answer = place();
    answer.text.clear();
    for (Process rank = 0; rank < world_.ranks(); ++rank)
        answer.text += fmt::format("{} {}\n", rank == world_.focus() ? "*" : " ", world_.text(rank));
    return answer;
}

Result<Answer> Commands::in_transit(const std::string&) {
    Answer answer;
    answer.json["messages"] = nlohmann::json::array();
    for (const Index sent : world_.moves().in_transit(world_.cut())) {
        answer.text += world_.moves().text(sent) + "\n";
        answer.json["messages"].push_back(world_.moves().text(sent));
    }
    if (answer.text.empty()) answer.text = "nothing\n";
    return answer;
}

Answer Commands::checkpoints_of(const live::LiveWorld& world) const {
    Answer answer;
    answer.json["checkpoints"] = nlohmann::json::array();
    std::uint64_t all = 0;
    for (const auto& each : world.checkpoints()) {
        std::string events;
        nlohmann::json calls = nlohmann::json::array();
        for (Process rank = 0; rank < world.ranks(); ++rank) {
            calls.push_back(world.moves().call_at({rank, each.cut[rank]}));
            events += fmt::format("{}{}", rank > 0 ? " " : "", calls.back().dump());
        }
        all += each.checkpoint.bytes;
        answer.text += fmt::format("events {}: {} MB, taken in {:.2f} s\n", events,
                                   each.checkpoint.bytes >> 20, each.checkpoint.seconds);
        answer.json["checkpoints"].push_back({{"events", calls},
                                              {"cut", each.cut},
                                              {"bytes", each.checkpoint.bytes},
                                              {"seconds", each.checkpoint.seconds}});
    }
    answer.json["bytes"] = all;
    answer.text += fmt::format("{} MB in all; of the whole job, {} at most beside its beginning\n", all >> 20,
                               bounds_.checkpoints);
    return answer;
}

Result<Answer> Commands::checkpoints(const std::string&) {
    if (const auto* live = dynamic_cast<const live::LiveWorld*>(&world_)) return checkpoints_of(*live);
    Answer answer;
    answer.json["ranks"] = nlohmann::json::array();
    AloneWorld* alone = TRY(alone_for("checkpoints"));
    std::uint64_t all = 0;
    for (Process rank = 0; rank < world_.ranks(); ++rank) {
        const History& history = alone->history(rank);
        std::string line = fmt::format("rank {}:", rank);
        nlohmann::json events = nlohmann::json::array();
        std::uint64_t bytes = history.there() ? resident_of(history.pid()) : 0;
        for (const auto& each : history.checkpoints()) {
            line += fmt::format(" {}", each.report.event);
            events.push_back(each.report.event);
            bytes += resident_of(each.process.pid());
        }
        all += bytes;
        line += fmt::format("{}, {} MB", history.checkpoints().empty() ? " not started" : "", bytes >> 20);
        nlohmann::json images = nlohmann::json::array();
        if (alone->images() != nullptr)
            for (const Image& each : alone->images()->store().images())
                if (each.rank == static_cast<int>(rank)) images.push_back(each.event);
        for (const auto& event : images)
            line += fmt::format("{} {}", &event == &images.front() ? "; images" : "", event.dump());
        answer.json["ranks"].push_back({{"rank", rank},
                                        {"events", events},
                                        {"bytes", bytes},
                                        {"taken", history.taken()},
                                        {"fork", history.longest_fork()},
                                        {"images", images}});
        answer.text += line + "\n";
    }
    answer.json["bytes"] = all;
    answer.text += fmt::format(
        "{} MB in all; behind events, at least every {} s of running near where a rank "
        "stands, {} of each at most\n",
        all >> 20, bounds_.back_within / 2, bounds_.checkpoints);
    if (alone->images() != nullptr) {
        answer.json["disk"] = alone->images()->store().bytes();
        answer.text += fmt::format("{} MB of images on the disk\n", alone->images()->store().bytes() >> 20);
        const std::string going_on = alone->images()->what_goes_on();
        answer.json["saving"] = going_on;
        if (!going_on.empty()) answer.text += going_on + "\n";
    }
    return answer;
}

Result<Answer> Commands::verify(const std::string&) {
    Answer answer;
    std::uint64_t bytes = 0;
    answer.json["differences"] = nlohmann::json::array();
    AloneWorld* alone = TRY(alone_for("verify"));
    for (Process rank = 0; rank < world_.ranks(); ++rank) {
        History* history = TRY(alone->standing(rank));
        const auto straight = TRY(history->straight());
        const Report& report = history->report();
        const auto compared = TRY(
            compare(history->pid(), straight.pid(), report.position == 0 ? ~std::uint64_t{0} : report.frame));
        bytes += compared.bytes;
        for (const std::string& each : compared.differences) {
            answer.text += fmt::format("rank {} differs: {}\n", rank, each);
            answer.json["differences"].push_back({{"rank", rank}, {"where", each}});
        }
    }
    answer.json["bytes"] = bytes;
    answer.text +=
        fmt::format("{} MB compared{}\n", bytes >> 20, answer.text.empty() ? ", all the same" : "");
    return answer;
}

}  // namespace cairn::mpi::debug
