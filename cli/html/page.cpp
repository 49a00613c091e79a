#include "cli/html/page.h"

#include <sys/mman.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/inspect_show.h"
#include "cli/inspect_text.h"
#include "common/human.h"
#include "common/json_text.h"
#include "common/schema/fields.h"

namespace cairn::inspect {
namespace {

using nlohmann::json;

constexpr const char* page =
#include "html_page.inc"
    ;
constexpr std::string_view data_place = "CAIRN_DATA";

std::string key_of(std::int32_t part, std::int64_t object) {
    return fmt::format("{}:{}", part, object);
}

// `saved`: bytes that are in the image, or in one that it borrows from.
json areas_of(const schema::Process& process, std::uint64_t& saved) {
    auto areas = json::array();
    for (const auto& area : process.areas) {
        std::uint64_t stored = 0;
        for (const auto& run : area.pages) stored += run.length;
        if (area.borrowed)
            for (const auto& part : *area.borrowed)
                for (const auto& run : part.pages) stored += run.length;
        saved += stored;
        const std::string protection =
            fmt::format("{}{}{}", (area.prot & PROT_READ) != 0 ? "r" : "-",
                        (area.prot & PROT_WRITE) != 0 ? "w" : "-", (area.prot & PROT_EXEC) != 0 ? "x" : "-");
        areas.push_back(
            json::array({area.start.value(), area.end - area.start, std::string(name_of(area.kind)),
                         protection, stored, printable(area.name)}));
    }
    return areas;
}

// Ends of one pipe or connection name each other, so that who has the other end is found.
json objects_of(const Checkpoint& checkpoint) {
    json objects = json::object();
    std::map<std::pair<std::int32_t, std::int64_t>, std::vector<std::string>> ends_of_pipes;
    for (const auto& image : checkpoint.objects)
        for (const auto& object : image.objects.objects) {
            const std::string key = key_of(image.part, object.id);
            if (object.pipe >= 0) ends_of_pipes[{image.part, object.pipe}].push_back(key);
            std::string text = object.path.empty() ? describe(object) : object.path;
            objects[key] = json::array({"", printable(text), json::array()});
        }
    for (const auto& [pipe, ends] : ends_of_pipes)
        for (const std::string& end : ends)
            for (const std::string& other : ends)
                if (other != end) objects[end][2].push_back(other);
    return objects;
}

// "</script>" in a name would end what it stands in.
std::string in_script(const json& data) {
    std::string text;
    for (const char each : json_text(data)) {
        if (each == '<')
            text += "\\u003c";
        else
            text += each;
    }
    return text;
}

}  // namespace

std::string as_page(const Checkpoint& checkpoint, const std::vector<PageGeneration>& generations,
                    const std::vector<std::string>& stacks) {
    json data{{"title", checkpoint.folder},
              {"facts", ""},
              {"generation", 0},
              {"generations", json::array()},
              {"processes", json::array()},
              {"objects", objects_of(checkpoint)}};
    if (const auto& manifest = checkpoint.manifest) {
        data["generation"] = manifest->generation;
        data["facts"] = fmt::format("{}, {}, {} on {}, Linux {}; pause {}, durable after {}", manifest->cid,
                                    human_count(checkpoint.processes.size(), "process", "processes"),
                                    human_date(manifest->taken_at_ns), manifest->host, manifest->kernel,
                                    human_time(manifest->pause_ns), human_time(manifest->total_ns));
    }
    for (const auto& each : generations)
        data["generations"].push_back({{"number", each.number},
                                       {"bytes", each.bytes},
                                       {"at", each.taken_at_ns},
                                       {"pause", each.pause_ns},
                                       {"total", each.total_ns}});
    for (std::size_t i = 0; i < checkpoint.processes.size(); ++i) {
        const LoadedProcess& each = checkpoint.processes[i];
        const auto& process = each.process;
        std::uint64_t saved = 0;
        auto areas = areas_of(process, saved);
        auto fds = json::array();
        for (const auto& descriptor : process.descriptors) {
            // Objects that all parts share are in the image of part 0.
            const bool in_part = data["objects"].contains(key_of(each.part, descriptor.object));
            fds.push_back(
                json::array({descriptor.fd.number(), key_of(in_part ? each.part : 0, descriptor.object)}));
        }
        data["processes"].push_back({{"pid", process.pid.number()},
                                     {"ppid", process.ppid.number()},
                                     {"part", each.part},
                                     {"name", printable(process.name)},
                                     {"command", printable(each.command())},
                                     {"state", std::string(name_of(process.run)).substr(0, 3)},
                                     {"mapped", each.mapped()},
                                     {"stored", saved},
                                     {"areas", std::move(areas)},
                                     {"fds", std::move(fds)},
                                     {"stacks", i < stacks.size() ? stacks[i] : ""}});
    }
    std::string html = page;
    return html.replace(html.find(data_place), data_place.size(), in_script(data));
}

}  // namespace cairn::inspect
