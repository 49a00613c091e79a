// `cairn inspect --fds`: what each descriptor of an image is.
#include <fcntl.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/inspect_show.h"
#include "cli/inspect_text.h"
#include "common/schema/json.h"
#include "resources/schema/fields.h"
#include "resources/schema/json.h"

namespace cairn::inspect {
namespace {

using nlohmann::json;

std::string open_flags(std::int32_t flags) {
    std::string words;
    switch (flags & O_ACCMODE) {
        case O_RDONLY:
            words = "read";
            break;
        case O_WRONLY:
            words = "write";
            break;
        default:
            words = "read and write";
    }
    if ((flags & O_PATH) != 0) words = "path only";
    if ((flags & O_APPEND) != 0) words += ", append";
    if ((flags & O_NONBLOCK) != 0) words += ", nonblocking";
    if ((flags & O_DIRECT) != 0) words += ", direct";
    if ((flags & O_SYNC) == O_SYNC)
        words += ", sync";
    else if ((flags & O_DSYNC) != 0)
        words += ", dsync";
    return words;
}

std::string waiting(std::size_t bytes) {
    return bytes == 0 ? "" : fmt::format(", {} bytes in it", bytes);
}

std::string owner(const schema::Object& object) {
    return object.owner == ProgramId() ? "" : fmt::format(", signals {}", object.owner);
}

std::string contents_of(const schema::Object& object) {
    return waiting(std::accumulate(object.contents.begin(), object.contents.end(), std::size_t{0},
                                   [](std::size_t sum, const auto& each) { return sum + each.size(); }));
}

// What each kind says of itself; those that aren't here say what they are and their path.
struct Describe {
    const schema::Object& object;
    std::string path = printable(object.path);

    std::string operator()(const schema::File&) const {
        return fmt::format("{}{} ({}, at {}){}", path, object.deleted ? " (deleted)" : "",
                           open_flags(object.flags), object.position, owner(object));
    }
    std::string operator()(const schema::Pipe&) const {
        const int access = object.flags & O_ACCMODE;
        return fmt::format("pipe {}, {}{}{}", object.pipe,
                           access == O_RDONLY   ? "read end"
                           : access == O_WRONLY ? "write end"
                                                : "both ends",
                           contents_of(object), owner(object));
    }
    std::string operator()(const schema::Fifo&) const {
        return fmt::format("FIFO {} ({}){}", path, open_flags(object.flags), contents_of(object));
    }
    std::string operator()(const schema::PtyMaster& saved) const {
        return fmt::format("pty {}, master{}", saved.terminal.index, waiting(saved.terminal.input.size()));
    }
    std::string operator()(const schema::PtySlave& saved) const {
        return fmt::format("pty {}, slave{}", saved.terminal.index, waiting(saved.terminal.input.size()));
    }
    std::string operator()(const schema::Terminal& saved) const {
        return fmt::format("terminal {} ({}){}", path, open_flags(object.flags),
                           waiting(saved.terminal.input.size()));
    }
    std::string operator()(const schema::Memory& saved) const {
        return fmt::format("memory {}, {}", saved.name.empty() ? path : "memfd " + printable(saved.name),
                           human_size(saved.size));
    }
    template <class Other>
    std::string operator()(const Other&) const {
        return fmt::format("{} {}", Other::kind, path);
    }
};

}  // namespace

std::string describe(const schema::Object& object) {
    return std::visit(Describe{object}, object.what);
}

std::string object_list(const LoadedObjects& objects) {
    std::string text = fmt::format("objects of {}: {}, {}\n",
                                   objects.part == 0 ? "all parts" : fmt::format("part {}", objects.part),
                                   printable(objects.path), human_size(objects.reader.file_size()));
    Table table("  ", {Table::Side::right, Table::Side::left, Table::Side::right, Table::Side::left});
    table.row({"ID", "KIND", "STORED", "WHAT"});
    for (const schema::Object& object : objects.objects.objects) {
        std::uint64_t stored = 0;
        if (const auto* memory = object.get<schema::Memory>())
            for (const auto& run : memory->pages) stored += run.length;
        table.row({fmt::format("{}", object.id), std::string(schema::kind_of(object)),
                   stored == 0 ? "-" : human_size(stored), describe(object)});
    }
    return text + table.text();
}

json as_json(const Checkpoint& checkpoint) {
    json all = json::object();
    if (!checkpoint.folder.empty()) all["folder"] = checkpoint.folder;
    if (checkpoint.manifest) all["manifest"] = schema::to_json(*checkpoint.manifest);
    all["processes"] = json::array();
    for (const LoadedProcess& each : checkpoint.processes) {
        json process = schema::to_json(each.process);
        process["image"] = each.path;
        process["part"] = each.part;
        process["mapped_bytes"] = each.mapped();
        process["stored_bytes"] = each.stored();
        process["command"] = each.command();
        all["processes"].push_back(std::move(process));
    }
    all["objects"] = json::array();
    for (const LoadedObjects& each : checkpoint.objects) {
        json objects = schema::to_json(each.objects);
        objects["image"] = each.path;
        objects["part"] = each.part;
        all["objects"].push_back(std::move(objects));
    }
    all["problems"] = json::array();
    for (const Error& problem : checkpoint.problems) all["problems"].push_back(problem.what);
    return all;
}

}  // namespace cairn::inspect
