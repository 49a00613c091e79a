// Of a checkpoint over several hosts: which ends of connections belong together.
#include <algorithm>
#include <limits>
#include <map>

#include "coordinator/joint_checkpoint.h"

namespace cairn::coordinator {
namespace {

std::string text_at(const Json& list, std::size_t index) {
    return list.is_array() && index < list.size() && list[index].is_string() ? list[index].get<std::string>()
                                                                             : std::string();
}

std::uint64_t number_at(const Json& list, std::size_t index, std::uint64_t fallback) {
    if (index >= list.size() || !list[index].is_number_integer()) return fallback;
    if (list[index].is_number_unsigned()) return list[index].get<std::uint64_t>();
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, list[index].get<std::int64_t>()));
}

// Of an end: [own, peer, unsent, shown, room, sent, received, waiting]; the last three may be missing.
std::uint64_t unsent(const Json& end) {
    return number_at(end, 2, 0);
}
bool shown(const Json& end) {
    return end.size() > 3 && end[3] == true;
}
std::uint64_t room(const Json& end) {
    return number_at(end, 4, std::numeric_limits<std::uint64_t>::max());
}

// How much can be in the receive queue of `theirs` at most, when all has come that `own` has sent: both have
// counted what they have sent and received since there is a connection, one of the two its SYN as well.
void tell_unread(const Json& own, const Json& theirs, Json& answer) {
    if (own.size() < 8 || theirs.size() < 8) return;
    const std::uint64_t sent = number_at(own, 5, 0) + 2, received = number_at(theirs, 6, 0);
    answer["unread"] = number_at(theirs, 7, 0) + (sent > received ? sent - received : 0);
}

// Sockets that call somebody whom a member on another host may be: both are told the connection's number.
void match_calls(const std::vector<Json>& said, std::vector<Json>& answers, std::int64_t next) {
    const auto list_of_host = [&](std::size_t host, const char* name) {
        const auto found = said[host].find(name);
        return found != said[host].end() && found->is_array() ? *found : Json::array();
    };
    std::map<std::string, std::vector<std::pair<std::size_t, std::size_t>>> reached;  // host, index
    for (std::size_t host = 0; host < said.size(); ++host) {
        const Json at = list_of_host(host, "reached");
        for (std::size_t i = 0; i < at.size(); ++i) reached[text_at(at, i)].emplace_back(host, i);
    }
    for (std::size_t host = 0; host < said.size(); ++host) {
        const Json calls = list_of_host(host, "calls");
        for (std::size_t i = 0; i < calls.size(); ++i) {
            const auto found = reached.find(text_at(calls, i));
            if (found == reached.end()) continue;
            for (const auto& [there, index] : found->second) {
                if (there == host) continue;
                answers[host]["called"].push_back(Json::array({i, next}));
                answers[there]["awaited"].push_back(Json::array({index, next}));
                ++next;
                break;
            }
        }
    }
}

}  // namespace

std::vector<Json> match_connections(const std::vector<Json>& said) {
    struct Where {
        std::size_t host, index;
    };
    std::map<std::string, Where> ends, loose;
    const auto list_of = [](const Json& one, const char* name) {
        // Whatever was said: a list of lists, or none.
        const auto found = one.find(name);
        Json list = found != one.end() && found->is_array() ? *found : Json::array();
        for (Json& each : list)
            if (!each.is_array()) each = Json::array();
        return list;
    };
    std::vector<Json> all_ends, all_loose;  // by host
    for (std::size_t host = 0; host < said.size(); ++host) {
        const Json& own_ends = all_ends.emplace_back(list_of(said[host], "ends"));
        const Json& own_loose = all_loose.emplace_back(list_of(said[host], "loose"));
        for (std::size_t i = 0; i < own_ends.size(); ++i)
            ends[text_at(own_ends[i], 0) + "/" + text_at(own_ends[i], 1)] = {host, i};
        for (std::size_t i = 0; i < own_loose.size(); ++i)
            loose[text_at(own_loose[i], 0) + "/" + text_at(own_loose[i], 1)] = {host, i};
    }
    std::vector<Json> answers(said.size(), {{"links", Json::array()}, {"flow", false}});
    std::int64_t next = 0;
    bool flow = false;
    std::vector<std::pair<std::size_t, std::size_t>> full;  // which link of which host
    for (std::size_t host = 0; host < said.size(); ++host) {
        const Json& own_ends = all_ends[host];
        for (std::size_t i = 0; i < own_ends.size(); ++i) {
            const std::string own = text_at(own_ends[i], 0), peer = text_at(own_ends[i], 1);
            std::string wanted = peer;
            wanted.append("/").append(own);
            if (const auto other = ends.find(wanted); other != ends.end() && other->second.host != host) {
                const auto& [there, index] = other->second;
                if (there < host) continue;  // both were told when its turn was
                const Json& theirs = all_ends[there][index];
                answers[host]["links"].push_back(
                    {{"end", i}, {"link", next}, {"side", 0}, {"unsent", unsent(theirs)}});
                answers[there]["links"].push_back(
                    {{"end", index}, {"link", next}, {"side", 1}, {"unsent", unsent(own_ends[i])}});
                tell_unread(own_ends[i], theirs, answers[host]["links"].back());
                tell_unread(theirs, own_ends[i], answers[there]["links"].back());
                flow |= !shown(own_ends[i]) || !shown(theirs);
                if (unsent(theirs) > room(own_ends[i]))
                    full.emplace_back(host, answers[host]["links"].size() - 1);
                if (unsent(own_ends[i]) > room(theirs))
                    full.emplace_back(there, answers[there]["links"].size() - 1);
                ++next;
            } else if (const auto nobody = loose.find(wanted);
                       nobody != loose.end() && nobody->second.host != host) {
                const auto& [there, index] = nobody->second;
                const Json& theirs = all_loose[there][index];
                if (theirs.size() < 3 || theirs[2] != true) {
                    answers[host]["links"].push_back({{"end", i}, {"closing", number_at(theirs, 4, 0)}});
                } else if (unsent(own_ends[i]) != 0) {
                    const std::string who = "is a TCP socket connected to " + text_at(theirs, 3) +
                                            " on another host, who hasn't accepted it yet, and has sent "
                                            "something already: nobody can read that before it is accepted";
                    answers[host]["links"].push_back({{"end", i}, {"loose", who}});
                } else {
                    answers[host]["links"].push_back(
                        {{"end", i}, {"link", next}, {"side", 1}, {"pending", true}});
                    answers[there]["pending"].push_back(Json::array({index, next}));
                    ++next;
                }
            }
        }
    }
    match_calls(said, answers, next);
    if (!flow) return answers;  // who can look at what is in between needs no room for it
    for (Json& answer : answers) {
        answer["flow"] = true;
        if (!full.empty()) answer["full"] = true;
    }
    for (const auto& [host, link] : full) answers[host]["links"][link]["full"] = true;
    return answers;
}

}  // namespace cairn::coordinator
