#include <map>

#include "coordinator/joint_checkpoint.h"

namespace cairn::coordinator {
namespace {

std::string text_at(const Json& list, std::size_t index) {
    return list.is_array() && index < list.size() && list[index].is_string() ? list[index].get<std::string>()
                                                                             : std::string();
}

}  // namespace

std::vector<Json> match_connections(const std::vector<Json>& said) {
    struct Where {
        std::size_t host, index;
    };
    std::map<std::string, Where> ends, loose;
    const auto list_of = [&](std::size_t host, const char* name) {
        // Whatever was said: a list of lists, or none.
        const auto found = said[host].find(name);
        Json list = found != said[host].end() && found->is_array() ? *found : Json::array();
        for (Json& one : list)
            if (!one.is_array()) one = Json::array();
        return list;
    };
    for (std::size_t host = 0; host < said.size(); ++host) {
        const Json own_ends = list_of(host, "ends"), own_loose = list_of(host, "loose");
        for (std::size_t i = 0; i < own_ends.size(); ++i)
            ends[text_at(own_ends[i], 0) + "/" + text_at(own_ends[i], 1)] = {host, i};
        for (std::size_t i = 0; i < own_loose.size(); ++i)
            loose[text_at(own_loose[i], 0) + "/" + text_at(own_loose[i], 1)] = {host, i};
    }
    std::vector<Json> answers(said.size(), {{"links", Json::array()}, {"flow", false}});
    std::int64_t next = 0;
    bool flow = false;
    for (std::size_t host = 0; host < said.size(); ++host) {
        const Json own_ends = list_of(host, "ends");
        for (std::size_t i = 0; i < own_ends.size(); ++i) {
            const std::string own = text_at(own_ends[i], 0), peer = text_at(own_ends[i], 1);
            const std::string wanted = peer + "/" + own;
            if (const auto other = ends.find(wanted); other != ends.end() && other->second.host != host) {
                const auto& [there, index] = other->second;
                if (there < host) continue;  // both were told when its turn was
                const Json theirs = list_of(there, "ends")[index];
                const auto unsent = [](const Json& end) {
                    return end.size() > 2 && end[2].is_number() ? end[2] : Json(0);
                };
                const auto shown = [](const Json& end) { return end.size() > 3 && end[3] == true; };
                answers[host]["links"].push_back(
                    {{"end", i}, {"link", next}, {"side", 0}, {"unsent", unsent(theirs)}});
                answers[there]["links"].push_back(
                    {{"end", index}, {"link", next}, {"side", 1}, {"unsent", unsent(own_ends[i])}});
                flow |= !shown(own_ends[i]) || !shown(theirs);
                ++next;
            } else if (const auto nobody = loose.find(wanted);
                       nobody != loose.end() && nobody->second.host != host) {
                const Json theirs = list_of(nobody->second.host, "loose")[nobody->second.index];
                const bool pending = theirs.size() > 2 && theirs[2] == true;
                const std::string who =
                    pending ? "is a TCP socket connected to " + text_at(theirs, 3) +
                                  " on another host, who hasn't accepted it yet"
                            : "is a TCP socket whose peer on another host has closed it, with "
                              "something still on its way";
                answers[host]["links"].push_back({{"end", i}, {"loose", who}});
            }
        }
    }
    if (flow)
        for (Json& answer : answers) answer["flow"] = true;
    return answers;
}

}  // namespace cairn::coordinator
