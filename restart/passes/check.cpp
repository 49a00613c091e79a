#include "restart/passes/check.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "common/human.h"
#include "common/privileges.h"
#include "resources/restore/opening.h"
#include "resources/saved/schema_files.h"
#include "resources/schema/descriptor_room.h"
#include "restart/verify.h"

namespace cairn::restart::pass {
namespace {

bool is_put_back(const schema::Object& object, const ObjectSetOptions& opening, const PutBack* put_back) {
    return put_back != nullptr && object.is<schema::File>() && !object.deleted &&
           put_back->covers(mapped_path(object.path, opening));
}

// The coordinator that this restart may have to start hands these on to its captures: what was saved is saved
// on.
Result<> go_on_saving(const std::string& directory, const ObjectSetOptions& opening) {
    const auto saved = TRY(read_saved_files(directory));
    std::string folders;
    for (const auto& each : saved.folders)
        folders += (folders.empty() ? "" : ":") + mapped_path(each, opening);
    ::setenv("CAIRN_FILES", "save", 0);
    if (!folders.empty()) ::setenv("CAIRN_WITH", folders.c_str(), 0);
    return {};
}

// Files that the checkpoint has saved go back unless another way with them is asked for.
Result<std::unique_ptr<PutBack>> plan_files(const Options& options, const Computation& computation,
                                            const ObjectSetOptions& opening, Notes& notes) {
    const auto& directory = computation.directory;
    if (!PutBack::is_in(directory)) {
        if (computation.manifest.saved_files > 0 && options.files == FilePolicy::by_rule)
            return fail_code(
                ExitCode::damaged,
                "{}: {} and the folder {} are gone, in which {} were saved that go back with the "
                "programs: take another checkpoint, or --files=use, which takes files as they are",
                directory, saved_list, saved_folder,
                human_count(computation.manifest.saved_files, "file", "files"));
        if (!options.restore_files) return nullptr;
        return fail_code(ExitCode::refused, "{} has saved no files (launch --files=save)", directory);
    }
    auto saving = go_on_saving(directory, opening);
    if (options.files != FilePolicy::by_rule) {
        if (!saving) notes.list.push_back(saving.error().what);
        return nullptr;
    }
    CHECK_OK(std::move(saving));
    if (!options.parts.empty() && computation.manifest.parts.size() > 1)
        return fail_code(
            ExitCode::refused,
            "{} has saved files, which go back for all parts at once: restart it without --part, or with "
            "--files=use, which takes files as they are",
            directory);
    auto planned = TRY(PutBack::plan(
        directory, [&](const std::string& path) { return mapped_path(path, opening); }, notes.list));
    return std::make_unique<PutBack>(std::move(planned));
}

// Those that are put back are judged when they are there. The copy of one in an image isn't needed.
schema::Objects without_put_back(schema::Objects& objects, const ObjectSetOptions& opening,
                                 const PutBack& put_back) {
    std::set<std::int64_t> copies;
    for (auto& object : objects.objects)
        if (object.backing >= 0 && is_put_back(object, opening, &put_back))
            copies.insert(std::exchange(object.backing, -1));
    for (const auto& object : objects.objects) copies.erase(object.backing);
    std::erase_if(objects.objects, [&](const schema::Object& object) { return copies.contains(object.id); });
    schema::Objects others = objects;
    std::erase_if(others.objects,
                  [&](const schema::Object& object) { return is_put_back(object, opening, &put_back); });
    return others;
}

// Who is in a pid namespace of its own fetches its descriptors from in there, where those who keep them for
// it have no number.
Result<> refuse_beyond_reach(const std::vector<schema::Process>& processes) {
    const auto found = std::ranges::find_if(
        processes, [](const schema::Process& process) { return process.own_pids.has_value(); });
    if (found == processes.end()) return {};
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return fail_code(ExitCode::refused,
                     "process {} ({}) is in a pid namespace of the computation's own, into which descriptors "
                     "can't be brought where there are more of them in all than a process may have, which "
                     "is {}: raise that limit (ulimit -Hn)",
                     found->pid, found->name, limit.rlim_cur);
}

}  // namespace

Result<Checked> check(const Options& options, Computation& computation, Notes& notes) {
    if (options.verify) CHECK_OK(can_verify(computation.directory));
    auto& objects = computation.objects.objects;
    ObjectSetOptions opening;
    opening.files = options.files;
    opening.path_map = options.path_map;
    opening.directory = computation.directory;
    opening.access = Access(objects, computation.processes, opening.directory);
    // for tests of what is done where the descriptors don't fit
    const bool few = std::getenv("CAIRN_FEW_DESCRIPTORS") != nullptr;
    const auto room =
        TRY(find_descriptor_room(computation.processes, objects, raise_descriptor_limit(), few));
    if (room.width != 0) CHECK_OK(refuse_beyond_reach(computation.processes));
    opening.floor = room.floor;
    opening.width = room.width;
    auto put_back = TRY(plan_files(options, computation, opening, notes));
    schema::Objects others;
    if (put_back) others = without_put_back(objects, opening, *put_back);
    ObjectSet::prefer_files(objects, opening, notes.list);
    opening.writable_mappings = open_as_mapped(objects, computation.processes);
    const auto& judged = put_back ? others : objects;
    opening.remade = files_to_make(judged, opening);
    CHECK_OK(check_files(judged, opening, notes.list));
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        if (!options.environment.empty()) CHECK_OK(may_change_environment(process));
        if (own_privileges().bounding_of(process) == process.cap_bounding) continue;
        notes.list.push_back(
            fmt::format("process {} ({}) had a smaller capability bounding set, which only a restart "
                        "with CAP_SETPCAP can give it",
                        process.pid, process.name));
    }
    notes.print();
    return Checked{std::move(opening), std::move(put_back)};
}

}  // namespace cairn::restart::pass
