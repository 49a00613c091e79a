// How the ranks of a record end, and who waits for whom then.
#include <algorithm>
#include <sstream>

#include "mpi/debug/commands.h"

namespace cairn::mpi::debug {
namespace {

// Of a rank whose record ends within a call.
struct Waiting {
    std::string call;
    std::set<Process> all;  // it waits for each of these
    std::set<Process> any;  // or for one of these
    bool collective = false;
    std::uint32_t communicator = 0;
};

Waiting read_waiting(const std::string& text) {
    Waiting waiting;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t space = line.find(' ');
        const std::string what = line.substr(0, space),
                          rest = space == std::string::npos ? "" : line.substr(space + 1);
        const auto number = static_cast<std::uint32_t>(std::strtoul(rest.c_str(), nullptr, 10));
        if (what == "in") waiting.call = rest;
        if (what == "for") waiting.all.insert(number);
        if (what == "any") waiting.any.insert(number);
        if (what == "collective") {
            waiting.collective = true;
            waiting.communicator = number;
        }
    }
    return waiting;
}

std::vector<Process> members_of(const Computation& c, std::uint32_t communicator) {
    for (const auto& each : c.communicators())
        if (each.id == communicator && communicator != 0) return each.members;
    std::vector<Process> all;
    for (Process p = 0; p < c.processes(); ++p) all.push_back(p);
    return all;
}

std::uint64_t collectives(const Computation& c, Process rank, std::uint32_t communicator) {
    std::uint64_t count = 0;
    for (Position i = 0; i < c.size(rank); ++i) {
        const auto& event = c.event(c.first(rank) + i);
        count += event.kind == causality::Kind::collective && event.communicator == communicator ? 1 : 0;
    }
    return count;
}

// A circle in which each waits for the next, if there is one: by those that a rank waits for certainly.
std::vector<Process> circle(const std::map<Process, Waiting>& waiting) {
    for (const auto& [first, what] : waiting) {
        std::vector<Process> path{first};
        while (true) {
            const auto at = waiting.find(path.back());
            if (at == waiting.end()) break;
            const auto next = std::find_if(at->second.all.begin(), at->second.all.end(),
                                           [&](const Process each) { return waiting.contains(each); });
            if (next == at->second.all.end()) break;
            const auto seen = std::find(path.begin(), path.end(), *next);
            if (seen != path.end()) return {seen, path.end()};
            path.push_back(*next);
        }
    }
    return {};
}

}  // namespace

Result<Answer> Commands::waits(const std::string&) {
    const Computation& c = world_.moves().computation();
    Answer answer;
    answer.json["ranks"] = nlohmann::json::array();
    AloneWorld* alone = TRY(alone_for("waits"));
    std::map<Process, Waiting> waiting;
    std::map<Process, std::string> ends;
    for (Process rank = 0; rank < world_.ranks(); ++rank) {
        const auto end = TRY(alone->history(rank).end(c.size(rank)));
        if (end.why == Why::cut) waiting[rank] = read_waiting(end.text);
        if (end.why == Why::end) ends[rank] = fmt::format("rank {} comes to its end", rank);
        if (end.why == Why::departed) ends[rank] = fmt::format("rank {} can't go on: {}", rank, end.text);
        if (end.why == Why::there)
            ends[rank] = fmt::format("{}, behind its last event, {}", end.text, world_.moves().calls(rank));
    }
    for (auto& [rank, what] : waiting)
        if (what.collective)
            for (const Process member : members_of(c, what.communicator)) {
                const auto other = waiting.find(member);
                const bool there = other != waiting.end() && other->second.collective &&
                                   other->second.communicator == what.communicator;
                if (!there &&
                    collectives(c, member, what.communicator) <= collectives(c, rank, what.communicator))
                    what.all.insert(member);
            }
    for (Process rank = 0; rank < world_.ranks(); ++rank) {
        nlohmann::json out = {{"rank", rank}};
        if (const auto found = waiting.find(rank); found != waiting.end()) {
            const Waiting& what = found->second;
            answer.text += fmt::format("rank {}: its record ends in {}", rank, what.call);
            if (!what.all.empty()) answer.text += fmt::format(", waiting for {}", fmt::join(what.all, ", "));
            if (!what.any.empty())
                answer.text += fmt::format(", waiting for one of {}", fmt::join(what.any, ", "));
            answer.text += "\n";
            out.update({{"in", what.call}, {"for", what.all}, {"any", what.any}});
        } else {
            answer.text += ends[rank] + "\n";
            out["end"] = ends[rank];
        }
        answer.json["ranks"].push_back(out);
    }
    const auto round = circle(waiting);
    answer.json["circle"] = round;
    if (!round.empty())
        answer.text += fmt::format("deadlock: {} and {} again, each waits for the next\n",
                                   fmt::join(round, ", "), round.front());
    return answer;
}

}  // namespace cairn::mpi::debug
