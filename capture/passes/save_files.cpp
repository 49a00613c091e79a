#include "capture/passes/save_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "resources/saved/capture.h"

namespace cairn::capture {
namespace {

// Those of the kernel and of memory are saved otherwise, or are the machine's.
bool is_elsewhere(const std::string& path) {
    for (const std::string_view before : {"/proc/", "/sys/", "/dev/"})
        if (path.starts_with(before)) return true;
    return !path.starts_with('/');
}

// Not what was somebody's standard output: a job's log has other programs' lines, and theirs after the
// restart.
bool is_written(const schema::Object& object) {
    return object.is<schema::File>() && S_ISREG(object.identity.mode) && !object.deleted &&
           !object.standard.known() && (object.flags & O_ACCMODE) != O_RDONLY &&
           (object.flags & O_PATH) == 0 && !is_elsewhere(object.path);
}

// The images' folder is D/CID/N.partial, or, of one of several hosts, D/CID/N.partial/HOST.
struct ImagesFolder {
    std::string all;       // D
    std::string previous;  // of the newest generation that is whole; "": none
};

ImagesFolder find_images(const std::string& directory, const std::string& host) {
    namespace fs = std::filesystem;
    fs::path generation = directory;
    fs::path inner;
    if (!host.empty() && generation.filename().string().starts_with("host-")) {
        inner = generation.filename();
        generation = generation.parent_path();
    }
    const fs::path computation = generation.parent_path();
    ImagesFolder found{computation.parent_path().string(), {}};
    std::uint32_t newest = 0;
    std::error_code problem;
    for (const auto& entry : fs::directory_iterator(computation, problem)) {
        const auto name = entry.path().filename().string();
        std::uint32_t number = 0;
        const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
        if (wrong != std::errc() || end != name.data() + name.size() || number <= newest) continue;
        const auto folder = inner.empty() ? entry.path() : entry.path() / inner;
        if (!fs::exists(folder / "files.image", problem)) continue;
        newest = number;
        found.previous = folder.string();
    }
    return found;
}

// CAIRN_WITH=FOLDER:FOLDER...
std::vector<std::string> folders_named() {
    std::vector<std::string> folders;
    const char* value = std::getenv("CAIRN_WITH");
    std::istringstream all(value == nullptr ? "" : value);
    for (std::string each; std::getline(all, each, ':');)
        if (!each.empty()) folders.push_back(each);
    return folders;
}

}  // namespace

bool saves_files() {
    const char* value = std::getenv("CAIRN_FILES");
    return value != nullptr && std::string_view(value) == "save";
}

Result<schema::SavedFiles> save_open_files(const Setting& setting, const Ahead& ahead, const Members& members,
                                           const FoundObjects& found) {
    setting.reporter.phase("files");
    const auto images = find_images(setting.request.directory, setting.request.host);
    SavedFilesWanted wanted{.cid = setting.request.cid,
                            .files = {},
                            .mapped = {},
                            .folders = folders_named(),
                            .previous = images.previous,
                            .images = images.all};
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
    auto saved = TRY(save_files(ahead.directory.get(), wanted, notes));
    for (auto& note : notes) setting.reporter.note(std::move(note));
    return saved;
}

}  // namespace cairn::capture
