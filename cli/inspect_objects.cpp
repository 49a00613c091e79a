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
using schema::ObjectKind;

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
    return object.owner == 0 ? "" : fmt::format(", signals {}", object.owner);
}

}  // namespace

std::string describe(const schema::Object& object) {
    const std::size_t inside =
        std::accumulate(object.contents.begin(), object.contents.end(), std::size_t{0},
                        [](std::size_t sum, const auto& each) { return sum + each.size(); });
    const std::string path = printable(object.path);
    const auto pipe = [&](std::string_view end) {
        return fmt::format("pipe {}, {}{}{}", object.pipe, end, waiting(inside), owner(object));
    };
    switch (object.kind) {
        case ObjectKind::file:
            return fmt::format("{}{} ({}, at {}){}", path, object.deleted ? " (deleted)" : "",
                               open_flags(object.flags), object.position, owner(object));
        case ObjectKind::pipe_read:
            return pipe("read end");
        case ObjectKind::pipe_write:
            return pipe("write end");
        case ObjectKind::pipe_both:
            return pipe("both ends");
        case ObjectKind::fifo:
            return fmt::format("FIFO {} ({}){}", path, open_flags(object.flags), waiting(inside));
        case ObjectKind::pty_master:
            return fmt::format("pty {}, master{}", object.pty_index, waiting(object.input.size()));
        case ObjectKind::pty_slave:
            return fmt::format("pty {}, slave{}", object.pty_index, waiting(object.input.size()));
        case ObjectKind::terminal:
            return fmt::format("terminal {} ({}){}", path, open_flags(object.flags),
                               waiting(object.input.size()));
        case ObjectKind::memory:
            return fmt::format("memory {}, {}",
                               object.name.empty() ? path : "memfd " + printable(object.name),
                               human_size(object.size));
        case ObjectKind::other:
            return fmt::format("{} {}", printable(schema::kind_of(object)), path);
    }
    return path;
}

std::string object_list(const LoadedObjects& objects) {
    std::string text = fmt::format("objects of {}: {}, {}\n",
                                   objects.part == 0 ? "all parts" : fmt::format("part {}", objects.part),
                                   printable(objects.path), human_size(objects.reader.file_size()));
    Table table("  ", {Table::Side::right, Table::Side::left, Table::Side::right, Table::Side::left});
    table.row({"ID", "KIND", "STORED", "WHAT"});
    for (const schema::Object& object : objects.objects.objects) {
        std::uint64_t stored = 0;
        for (const auto& run : object.pages) stored += run.length;
        table.row({fmt::format("{}", object.id), std::string(schema::name_of(object.kind)),
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
