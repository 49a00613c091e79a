#include "resources/inotify/capture_find_inode.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <sstream>

#include "resources/capture/description.h"

namespace cairn::capture {
namespace {

constexpr std::size_t most_names = 300'000;

bool leads_to(const std::string& path, const WantedInode& wanted) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && status.st_ino == wanted.inode;
}

// Where file systems are mounted: proc(5), mountinfo. Octal escapes stand for blanks.
std::multimap<dev_t, std::string> mounts() {
    std::multimap<dev_t, std::string> found;
    auto text = read_text("/proc/self/mountinfo");
    if (!text) return found;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string id, parent, device, root, point;
        words >> id >> parent >> device >> root >> point;
        unsigned high = 0, low = 0;
        if (std::sscanf(device.c_str(), "%u:%u", &high, &low) != 2) continue;
        std::string path;
        for (std::size_t i = 0; i < point.size(); ++i) {
            if (point[i] == '\\' && i + 3 < point.size()) {
                path += static_cast<char>(std::strtol(point.substr(i + 1, 3).c_str(), nullptr, 8));
                i += 3;
            } else {
                path += point[i];
            }
        }
        found.emplace(::makedev(high, low), path);
    }
    return found;
}

void find_by_handle(WantedInode& wanted, const std::multimap<dev_t, std::string>& all_mounts) {
    if (wanted.handle.empty() || wanted.handle.size() > MAX_HANDLE_SZ) return;
    alignas(file_handle) char memory[sizeof(file_handle) + MAX_HANDLE_SZ] = {};
    auto* handle = reinterpret_cast<file_handle*>(memory);
    handle->handle_bytes = static_cast<unsigned>(wanted.handle.size());
    handle->handle_type = wanted.handle_type;
    std::memcpy(handle->f_handle, wanted.handle.data(), wanted.handle.size());
    const auto [begin, end] = all_mounts.equal_range(wanted.device);
    for (auto mount = begin; mount != end; ++mount) {
        const Fd folder(::open(mount->second.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
        if (!folder) continue;
        const Fd file(::open_by_handle_at(folder.get(), handle, O_PATH | O_CLOEXEC));
        if (!file) {
            wanted.gone = errno == ESTALE;
            continue;
        }
        // A bind mount of another part of the file system shows no path to it.
        auto path = read_link(fmt::format("/proc/self/fd/{}", file.get()));
        if (path && path->starts_with('/') && leads_to(*path, wanted)) wanted.path = std::move(*path);
        if (!wanted.path.empty()) return;
    }
}

// Breadth first, so that what is near is found soon.
class Search {
  public:
    explicit Search(std::vector<WantedInode>& wanted) {
        for (WantedInode& each : wanted)
            if (each.path.empty() && !each.gone) by_inode_[each.inode].push_back(&each);
    }
    [[nodiscard]] bool over() const { return by_inode_.empty() || names_ > most_names; }

    void look_below(const std::string& top) {
        std::deque<std::string> folders{top};
        while (!folders.empty() && !over()) {
            const std::string folder = std::move(folders.front());
            folders.pop_front();
            struct stat status {};
            if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
            if (!seen_.emplace(status.st_dev, status.st_ino).second) continue;
            met(folder, status.st_ino);
            read(folder, folders);
        }
    }

  private:
    void read(const std::string& folder, std::deque<std::string>& folders) {
        if (folder == "/proc" || folder == "/sys") return;
        DIR* entries = ::opendir(folder.c_str());
        if (!entries) return;
        while (const dirent* entry = ::readdir(entries)) {
            const std::string_view name = entry->d_name;
            if (name == "." || name == "..") continue;
            ++names_;
            const std::string path =
                folder == "/" ? fmt::format("/{}", name) : fmt::format("{}/{}", folder, name);
            met(path, entry->d_ino);
            if (entry->d_type == DT_DIR) folders.push_back(path);
        }
        ::closedir(entries);
    }

    void met(const std::string& path, ino_t inode) {
        const auto found = by_inode_.find(inode);
        if (found == by_inode_.end()) return;
        struct stat status {};
        if (::lstat(path.c_str(), &status) != 0 || status.st_ino != inode) return;
        std::erase_if(found->second, [&](WantedInode* wanted) {
            if (wanted->device != status.st_dev) return false;
            wanted->path = path;
            return true;
        });
        if (found->second.empty()) by_inode_.erase(found);
    }

    std::map<ino_t, std::vector<WantedInode*>> by_inode_;
    std::set<std::pair<dev_t, ino_t>> seen_;
    std::size_t names_ = 0;
};

}  // namespace

void find_paths(std::vector<WantedInode>& wanted, const std::vector<std::string>& folders) {
    const auto all_mounts = mounts();
    for (WantedInode& each : wanted) {
        if (!each.path.empty() && !leads_to(each.path, each)) each.path.clear();
        if (each.path.empty()) find_by_handle(each, all_mounts);
    }
    Search search(wanted);
    for (std::vector<std::string> level = folders; !level.empty() && !search.over();) {
        std::vector<std::string> above;
        for (const std::string& folder : level) {
            search.look_below(folder);
            if (folder.size() > 1)
                above.push_back(folder.substr(0, std::max<std::size_t>(folder.rfind('/'), 1)));
        }
        level = std::move(above);
    }
}

}  // namespace cairn::capture
