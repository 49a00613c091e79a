// `cairn inspect`: the processes of a checkpoint as a tree.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "cli/inspect_show.h"
#include "cli/inspect_text.h"
#include "common/human.h"

namespace cairn::inspect {
namespace {

using Side = Table::Side;

std::string terminal_name(const Checkpoint& checkpoint, const LoadedProcess& each) {
    if (each.process.terminal < 0) return "?";
    const schema::Object* object = checkpoint.object(each.part, each.process.terminal);
    if (object == nullptr) return fmt::format("#{}", each.process.terminal);
    const auto* state = schema::terminal_in(object->what);
    if (object->path.empty() && state != nullptr && state->index >= 0)
        return fmt::format("pts/{}", state->index);
    const std::string_view path = object->path;
    return printable(path.starts_with("/dev/") ? path.substr(5) : path);
}

// As ps: R, T, Z; s leader of a session, l threads, + in the foreground of its terminal.
std::string state(const schema::Process& process) {
    std::string letters(1, process.run == schema::Run::running   ? 'R'
                           : process.run == schema::Run::stopped ? 'T'
                                                                 : 'Z');
    if (process.pid == process.sid) letters += 's';
    if (process.threads.size() > 1) letters += 'l';
    if (process.terminal >= 0 && process.foreground == process.pgid) letters += '+';
    return letters;
}

}  // namespace

std::string heading(const schema::Manifest& manifest, const std::string& folder) {
    Table table("", {Side::left, Side::left});
    table.row({"checkpoint", printable(folder)});
    table.row({"group", fmt::format("{} (np {}), generation {}, session {}", printable(manifest.cid),
                                    manifest.np, manifest.generation, printable(manifest.session))});
    table.row({"taken", fmt::format("{} on {}, Linux {}", human_date(manifest.taken_at_ns),
                                    printable(manifest.host), printable(manifest.kernel))});
    table.row({"cost", fmt::format("{}, pause {}, {} in all", human_size(manifest.bytes),
                                   human_time(manifest.pause_ns), human_time(manifest.total_ns))});
    std::uint64_t earlier = 0;
    for (const auto& image : manifest.earlier) earlier += image.bytes;
    if (earlier != 0)
        table.row(
            {"earlier", fmt::format("{} in {}, which have pages of this generation too", human_size(earlier),
                                    human_count(manifest.earlier.size(), "image of an earlier generation",
                                                "images of earlier generations"))});
    for (const schema::ManifestPart& part : manifest.parts)
        table.row({fmt::format("part {}", part.number),
                   fmt::format("{} process{} on {}, {}", part.pids.size(), part.pids.size() == 1 ? "" : "es",
                               printable(part.host),
                               part.terminal.empty() ? "no terminal" : printable(part.terminal))});
    for (const std::string& note : manifest.notes) table.row({"note", printable(note)});
    return table.text();
}

std::string process_tree(const Checkpoint& checkpoint) {
    std::vector<const LoadedProcess*> sorted;
    std::set<ProgramId> present;
    for (const LoadedProcess& each : checkpoint.processes) {
        sorted.push_back(&each);
        present.insert(each.process.pid);
    }
    std::ranges::sort(sorted, {}, [](const LoadedProcess* each) { return each->process.pid; });
    std::map<ProgramId, std::vector<const LoadedProcess*>> children;
    std::vector<const LoadedProcess*> roots;
    for (const LoadedProcess* each : sorted) {
        const bool inside = present.contains(each->process.ppid) && each->process.ppid != each->process.pid;
        if (inside)
            children[each->process.ppid].push_back(each);
        else
            roots.push_back(each);
    }
    Table table("", {Side::right, Side::right, Side::right, Side::right, Side::left, Side::left, Side::right,
                     Side::right, Side::right, Side::left});
    table.row({"PPID", "PID", "PGID", "SID", "TTY", "STAT", "THR", "MAPPED", "STORED", "COMMAND"});
    std::set<const LoadedProcess*> shown;
    const std::function<void(const LoadedProcess*, const std::string&, bool, bool)> add =
        [&](const LoadedProcess* each, const std::string& lines, bool root, bool last) {
            if (!shown.insert(each).second) return;
            const schema::Process& process = each->process;
            table.row({fmt::format("{}", process.ppid), fmt::format("{}", process.pid),
                       fmt::format("{}", process.pgid), fmt::format("{}", process.sid),
                       terminal_name(checkpoint, *each), state(process),
                       fmt::format("{}", process.threads.size()), human_size(each->mapped()),
                       human_size(each->stored()),
                       lines + (root ? "" : "\\_ ") + printable(each->command())});
            const auto found = children.find(process.pid);
            if (found == children.end()) return;
            const std::string below = lines + (root ? " " : last ? "    " : "|   ");
            for (const LoadedProcess* child : found->second)
                add(child, below, false, child == found->second.back());
        };
    for (const LoadedProcess* root : roots) add(root, "", true, true);
    // A damaged or made-up set may have a ring of parents, that no root leads to.
    for (const LoadedProcess* each : sorted) add(each, "", true, true);
    return table.text();
}

}  // namespace cairn::inspect
