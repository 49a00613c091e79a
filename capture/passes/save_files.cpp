#include "capture/passes/save_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "capture/generations.h"
#include "common/files_policy.h"
#include "common/launchers_folder.h"
#include "common/proc.h"
#include "resources/saved/capture.h"
#include "resources/saved/schema_files.h"

namespace cairn::capture {
namespace {

// While the programs run: so often, and again only if that takes long.
constexpr int most_rounds = 5;
constexpr std::uint64_t little = std::uint64_t{8} << 20;
constexpr auto short_round = std::chrono::milliseconds(200);

// Those of the kernel and of memory are saved otherwise, or are the machine's.
bool is_elsewhere(const std::string& path) {
    for (const std::string_view before : {"/proc/", "/sys/", "/dev/"})
        if (path.starts_with(before)) return true;
    return !launchers_folder(path).empty() || !path.starts_with('/');
}

// Not what was somebody's standard output: a job's log has other programs' lines, and theirs after the
// restart.
bool is_written(const schema::Object& object) {
    return object.is<schema::File>() && S_ISREG(object.identity.mode) && !object.deleted &&
           !object.standard.known() && (object.flags & O_ACCMODE) != O_RDONLY &&
           (object.flags & O_PATH) == 0 && !is_elsewhere(object.path);
}

// FOLDER:FOLDER...
std::vector<std::string> folders_named(const std::string& with) {
    std::vector<std::string> folders;
    std::istringstream all(with);
    for (std::string each; std::getline(all, each, ':');)
        if (!each.empty()) folders.push_back(each);
    return folders;
}

SavedFilesWanted wanted_of(const Request& request) {
    return {.cid = request.cid,
            .files = {},
            .mapped = {},
            .folders = folders_named(request.with),
            .images = find_images(request.directory, request.host, saved_list).all};
}

// What /proc shows while the programs run, to be copied ahead. Nothing depends on it but time: what counts is
// found by the pass objects.
void look_for_files(pid_t pid, SavedFilesWanted& wanted, std::set<FilePlace>& outputs) {
    namespace fs = std::filesystem;
    std::error_code problem;
    for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), problem)) {
        struct stat status {};
        if (::stat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink == 0)
            continue;
        const FilePlace place{status.st_dev, status.st_ino};
        const auto number = entry.path().filename().string();
        if (number == "1" || number == "2") outputs.insert(place);
        std::ifstream info(fmt::format("/proc/{}/fdinfo/{}", pid, number));
        unsigned flags = 0;
        for (std::string word; info >> word;)
            if (word == "flags:" && info >> std::oct >> flags) break;
        if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) != 0) continue;
        auto path = fs::read_symlink(entry.path(), problem).string();
        if (!is_elsewhere(path)) wanted.files.push_back({std::move(path), status.st_dev, status.st_ino});
    }
}

// What is mapped shared and writable leaves no trace where it is written to. False: a process may write by
// others than its threads (io_uring's workers), or it can't be told.
bool look_for_mappings(pid_t pid, SavedFilesWanted& wanted) {
    const auto lines = proc::maps(pid, false);
    if (!lines) return false;
    for (const auto& line : *lines) {
        if (line.name.find("[io_uring]") != std::string::npos || line.name.starts_with("/[aio]"))
            return false;
        // One that can't be written to now may have been, and may be again: its dirty pages are at hand.
        if (!line.shared || line.deleted || is_elsewhere(line.name)) continue;
        struct stat status {};
        if (::stat(line.name.c_str(), &status) != 0) continue;  // removed: it isn't saved
        const FilePlace place{status.st_dev, status.st_ino};
        if (wanted.mapped.insert(place).second && S_ISREG(status.st_mode) && (line.prot & PROT_WRITE) != 0)
            wanted.files.push_back({line.name, place.first, place.second});
    }
    return true;
}

// A ring whose queues aren't mapped (any more) has a descriptor.
bool has_ring(pid_t pid) {
    std::error_code problem;
    for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), problem)) {
        const auto leads = std::filesystem::read_symlink(entry.path(), problem).string();
        if (leads.find("[io_uring]") != std::string::npos) return true;
    }
    return static_cast<bool>(problem);
}

// Everybody stands still for a moment: whoever was in the midst of a write has ended it, and what is mapped
// is known. False: nothing can be concluded from times.
Result<bool> cross(const Setting& setting, Ahead& ahead, SavedFilesWanted& wanted) {
    auto group = pass::stop(setting, ahead);
    if (!group) {
        if (!group.error().passing) return std::unexpected(std::move(group.error()));
        return false;
    }
    bool sure = true;
    for (const auto& [pid, process] : group->stopped.processes())
        sure = look_for_mappings(process.living, wanted) && !has_ring(pid) && sure;
    return sure;
}

}  // namespace

Result<> copy_files_ahead(const Setting& setting, Ahead& ahead) {
    const auto& request = setting.request;
    if (request.files != files_save) return {};
    const auto images = find_images(request.directory, request.host, saved_list);
    ahead.saved.emplace(TRY(SavedStore::make(ahead.directory.get(), images.previous)));
    // Those of several hosts are stopped together, and none for its own sake.
    if (request.joint) return {};
    auto& reporter = setting.reporter;
    std::uint64_t looked_at = 0;
    const CopyTold told = [&](std::uint64_t bytes) -> Result<> {
        looked_at += bytes;
        reporter.progress(looked_at, 0, saved_folder);
        if (reporter.coordinator_gone()) return fail("the coordinator has gone");
        return {};
    };
    // Each round has less to copy than the one before, or it is the last: what is written to faster than it
    // is copied is for the pause.
    std::uint64_t before = std::numeric_limits<std::uint64_t>::max();
    for (int round = 0; round < most_rounds; ++round) {
        const auto began = Clock::now();
        reporter.phase("copy");
        SavedFilesWanted wanted = wanted_of(request);
        std::set<FilePlace> outputs;
        for (const pid_t pid : request.members) look_for_files(pid, wanted, outputs);
        for (const pid_t pid : request.members) (void)look_for_mappings(pid, wanted);
        std::erase_if(wanted.files, [&](const FileToSave& each) {
            return outputs.contains({each.device, each.inode});
        });
        const auto listed = TRY(list_files(wanted));
        wanted.mapped.clear();
        const bool sure = TRY(cross(setting, ahead, wanted));
        reporter.phase("copy");
        looked_at = 0;
        const auto written = TRY(ahead.saved->copy_ahead(listed.files, wanted.mapped, !sure, told));
        if (written >= before || written < little || Clock::now() - began < short_round) break;
        before = written;
    }
    reporter.notes().clear();
    reporter.restart_deadline();
    return {};
}

Result<schema::SavedFiles> save_open_files(const Setting& setting, Ahead& ahead, const Members& members,
                                           const FoundObjects& found) {
    setting.reporter.phase("files");
    SavedFilesWanted wanted = wanted_of(setting.request);
    std::set<std::int64_t> seen;
    const auto take = [&](std::int64_t id) {
        if (id < 0 || !seen.insert(id).second) return;
        const auto& object = found.table.object(id);
        if (is_written(object))
            wanted.files.push_back({object.path, object.identity.device, object.identity.inode});
    };
    for (const auto& member : members.all)
        for (const auto& descriptor : member.image.descriptors) take(descriptor.object);
    for (const auto& map : found.maps)
        for (const auto& [start, id] : map.objects) {
            if (id < 0) continue;
            const auto& object = found.table.object(id);
            if (is_written(object)) wanted.mapped.insert({object.identity.device, object.identity.inode});
            take(id);
        }
    std::vector<std::string> notes;
    const CopyTold told = [&](std::uint64_t) {
        return setting.reporter.may_go_on([] { return "files are copied (--files=save)"; });
    };
    auto saved = TRY(save_files(*ahead.saved, wanted, told, notes));
    for (auto& note : notes) setting.reporter.note(std::move(note));
    return saved;
}

}  // namespace cairn::capture
