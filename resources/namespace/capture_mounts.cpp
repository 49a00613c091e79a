// Mount namespaces of the group's own: what is mounted there, and where that is outside.
#include <dirent.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "common/proc.h"
#include "resources/namespace/capture_own.h"
#include "resources/namespace/capture_visit.h"
#include "resources/namespace/schema_mounts.h"

namespace cairn::capture {
namespace {

using schema::MountLine;

// File systems that anybody may mount anew where he has all rights, and that are empty or the kernel's then.
constexpr std::array mountable = {"tmpfs", "ramfs", "proc", "sysfs", "mqueue", "devpts", "cgroup2"};
constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;  // of all files in memory of a namespace

bool is_in_memory(const MountLine& line) {
    return line.type == "tmpfs" || line.type == "ramfs";
}

bool is_known(const std::vector<MountLine>& lines, const std::string& device) {
    return std::ranges::any_of(lines, [&](const MountLine& line) { return line.device == device; });
}

// In the namespace: all files of a file system, without what is mounted in it.
class Walk {
  public:
    explicit Walk(Visit& here) : here_(here) {}

    void all_of(const std::string& point) {
        struct stat root {};
        if (::lstat(point.c_str(), &root) != 0) return fail(point);
        device_ = root.st_dev;
        tell(point, "", root);
        if (S_ISDIR(root.st_mode)) folder(point, "");
    }
    // Of regular files; what is beyond most_bytes isn't read.
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    // The first that couldn't be read, and why; "": none.
    [[nodiscard]] const std::string& problem() const { return problem_; }

  private:
    void fail(const std::string& path) {
        if (problem_.empty()) problem_ = fmt::format("{}: {}", path, std::strerror(errno));
    }

    void folder(const std::string& point, const std::string& below) {
        const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir((point + below).c_str()), ::closedir);
        if (!entries) return fail(point + below);
        // The kernel's order is that in which they were made, or the other way round: a restart makes them
        // anew, and the next checkpoint is to say the same.
        std::set<std::string> names;
        while (const dirent* entry = ::readdir(entries.get())) names.insert(entry->d_name);
        for (const std::string& name : names) {
            if (name == "." || name == "..") continue;
            const std::string path = fmt::format("{}/{}", below, name);
            struct stat status {};
            if (::lstat((point + path).c_str(), &status) != 0) return fail(point + path);
            tell(point, path, status);
            if (S_ISDIR(status.st_mode) && status.st_dev == device_) folder(point, path);
        }
    }

    // Something that is mounted on it hides what it is: nothing is ever seen of it but whether it is a
    // folder, and its owner is left to be who makes it.
    void tell(const std::string& point, const std::string& path, const struct stat& status) {
        constexpr uid_t whoever = ~uid_t{0};
        const bool covered = status.st_dev != device_;
        const mode_t hidden = S_ISDIR(status.st_mode) ? status.st_mode : S_IFREG | 0644U;
        here_.say("file");
        here_.say(path);
        here_.say(fmt::format("{}", covered ? hidden : status.st_mode));
        here_.say(fmt::format("{}", covered ? whoever : status.st_uid));
        here_.say(fmt::format("{}", covered ? whoever : status.st_gid));
        here_.say(fmt::format("{}", status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec));
        here_.say(fmt::format("{}", covered ? 0 : status.st_rdev));
        const std::string target = covered ? "" : target_of(point, path, status);
        here_.say(target);
        const bool has_contents = S_ISREG(status.st_mode) && !covered && target.empty();
        if (has_contents) bytes_ += static_cast<std::uint64_t>(status.st_size);
        if (!has_contents || bytes_ > most_bytes) return here_.say("");
        const Fd file(::open((point + path).c_str(), O_RDONLY | O_CLOEXEC));
        if (!file) fail(point + path);
        here_.say_file(file.get());
    }

    // Of a symbolic link, and of a file that has been told by another name.
    std::string target_of(const std::string& point, const std::string& path, const struct stat& status) {
        if (S_ISREG(status.st_mode) && status.st_nlink > 1) {
            const auto [first, is_new] = linked_.try_emplace(status.st_ino, path);
            return is_new ? "" : first->second;
        }
        if (!S_ISLNK(status.st_mode)) return "";
        char target[4096];
        const ssize_t length = ::readlink((point + path).c_str(), target, sizeof target);
        if (length < 0) fail(point + path);
        return {target, static_cast<std::size_t>(std::max(length, ssize_t{0}))};
    }

    Visit& here_;
    dev_t device_ = 0;
    std::uint64_t bytes_ = 0;
    std::map<ino_t, std::string> linked_;  // paths of files that have several
    std::string problem_;
};

// The root of what is mounted at a point, unless something else is mounted on it or a folder above it is
// closed to us: then 0.
std::uint64_t root_inode(const MountLine& line) {
    struct stat status {};
    if (::fstatat(AT_FDCWD, line.point.c_str(), &status, AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    return status.st_ino;
}

// A path leads to what is mounted last, on it or on a folder on the way: to none of what is below that then.
bool is_covered(const std::vector<MountLine>& lines, const MountLine& line) {
    std::set<int> way;  // the mount, and those that it is mounted in
    for (const auto* each = &line; each != nullptr && way.insert(each->id).second;) {
        const auto parent = std::ranges::find(lines, each->parent, &MountLine::id);
        each = parent == lines.end() ? nullptr : &*parent;
    }
    return std::ranges::any_of(lines, [&](const MountLine& other) {
        return way.contains(other.parent) && !way.contains(other.id) &&
               schema::is_below(line.point, other.point);
    });
}

// "pid:[4026532190]" of a proc that shows another pid namespace than ours, which has no number for us.
std::string pids_shown(const MountLine& line) {
    char text[64];
    if (line.type != "proc" || line.root != "/" ||
        ::readlink((line.point + "/self").c_str(), text, sizeof text) >= 0)
        return "";
    const ssize_t length = ::readlink((line.point + "/1/ns/pid").c_str(), text, sizeof text);
    return {text, static_cast<std::size_t>(std::max(length, ssize_t{0}))};
}

void look_at_mounts(Visit& here, int proc, const std::vector<MountLine>& outside) {
    const Fd file(::openat(proc, "self/mountinfo", O_RDONLY | O_CLOEXEC));
    std::string text;
    char buffer[65536];
    for (ssize_t got = 0; (got = ::read(file.get(), buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(got));
    here.say(text);
    const auto lines = schema::parse_mounts(text);
    std::set<std::string> told;  // devices
    for (const auto& line : lines) {
        const bool covered = is_covered(lines, line);
        here.say(fmt::format("{}", covered ? 0 : root_inode(line)));
        Walk walk(here);
        if (!covered && is_in_memory(line) && !is_known(outside, line.device) &&
            told.insert(line.device).second)
            walk.all_of(line.point);
        here.say("end");
        here.say(fmt::format("{}", walk.bytes()));
        here.say(walk.problem());
        here.say(covered ? "" : pids_shown(line));
    }
}

// Another thing may be mounted on it outside: then a path leads to that. Where it is at the same place
// outside the whole pile is there again when the namespace begins as a copy. (stat(2) and mountinfo name one
// device, but of btrfs.)
bool leads_to(const std::string& path, const MountLine& line, std::uint64_t inode) {
    struct stat status {};
    if (::fstatat(AT_FDCWD, path.c_str(), &status, AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW) != 0) return false;
    const auto device = fmt::format("{}:{}", major(status.st_dev), minor(status.st_dev));
    return status.st_ino == inode && (device == line.device || line.type == "btrfs" || path == line.point);
}

bool is_mounted_at(const std::string& point, const std::vector<MountLine>& outside, const MountLine& line) {
    return std::ranges::any_of(outside, [&](const MountLine& other) {
        return other.point == point && other.device == line.device && other.root == line.root;
    });
}

// The namespace began with it, and still has it where it was.
bool is_inherited(const std::vector<MountLine>& outside, const MountLine& line) {
    return is_mounted_at(line.point, outside, line);
}

// Where it is mounted outside if a folder was mounted with all that is mounted below it, this among it
// (`mount --rbind / jail`). "": it wasn't.
std::string came_along_from(const std::vector<MountLine>& outside, const MountLine& line,
                            const std::vector<schema::Mount>& before) {
    for (const auto& folder : before) {
        if (folder.outside.empty() || !schema::is_below(line.point, folder.point)) continue;
        const auto path =
            schema::joined(folder.outside, line.point.substr(folder.point == "/" ? 0 : folder.point.size()));
        if (is_mounted_at(path, outside, line)) return path;
    }
    return {};
}

// "": nowhere. `inode`: of the root of what is mounted; 0: something else is mounted on it, or whoever made
// the namespace can't reach it (what is mounted in another user's /run/user/UID), and no path tells of it.
std::string outside_of(const std::vector<MountLine>& outside, const MountLine& line, std::uint64_t inode,
                       const std::string& along) {
    if (inode == 0 && is_inherited(outside, line)) return line.point;
    if (inode == 0 && !along.empty()) return along;
    for (const auto& other : outside) {
        if (other.device != line.device || !schema::is_below(line.root, other.root)) continue;
        const auto path =
            schema::joined(other.point, line.root.substr(other.root == "/" ? 0 : other.root.size()));
        if (inode == 0 || leads_to(path, line, inode)) return path;
    }
    return {};
}

// The peers of a copy of a mount that nobody has made private are outside.
bool is_shared_with(const std::vector<MountLine>& outside, const MountLine& line) {
    return line.peers != 0 && std::ranges::find(outside, line.peers, &MountLine::peers) != outside.end();
}

// What may be said again to mount(2). Users are those of the files.
std::string data_of(const MountLine& line) {
    std::string data;
    std::istringstream words(line.super_options);
    for (std::string word; std::getline(words, word, ',');) {
        const auto is = [&](const char* name) { return word.starts_with(name); };
        const bool kept =
            (line.type == "tmpfs" && (is("size=") || is("nr_inodes=") || is("mode=") || is("huge="))) ||
            (line.type == "devpts" && (is("mode=") || is("ptmxmode="))) ||
            (line.type == "proc" && (is("hidepid=") || is("subset=")));
        if (kept) data += (data.empty() ? "" : ",") + word;
    }
    return data;
}

void read_files(Visit& seen, schema::Mount& mount) {
    while (seen.has_more() && seen.next() == "file") {
        schema::MountedFile file;
        const auto number = [&] { return std::strtoull(seen.next().c_str(), nullptr, 10); };
        file.path = seen.next();
        file.mode = static_cast<std::uint32_t>(number());
        file.uid = static_cast<std::uint32_t>(number());
        file.gid = static_cast<std::uint32_t>(number());
        file.mtime_ns = static_cast<std::int64_t>(number());
        file.device = number();
        file.target = seen.next();
        const auto contents = seen.next();
        file.contents.assign(contents.begin(), contents.end());
        mount.files.push_back(std::move(file));
    }
}

struct Told {  // of what is nowhere else
    bool covered = false;
    std::uint64_t bytes = 0;
    std::string problem;
};

Result<> check(const schema::Mount& mount, const Told& told) {
    const bool again = std::ranges::find(mountable, mount.type) != mountable.end();
    if (!again || (told.covered && (mount.type == "tmpfs" || mount.type == "ramfs")))
        return fail_code(
            ExitCode::refused,
            "has a file system of type {} ({}) at {}{}, which is mounted nowhere outside and can't be saved",
            mount.type, mount.source, mount.point, again ? ", below another one" : "");
    if (told.bytes > most_bytes)
        return fail_code(ExitCode::refused,
                         "has {} MiB in files of its own in memory (at {}), of which at most {} can be saved",
                         told.bytes >> 20, mount.point, most_bytes >> 20);
    if (!told.problem.empty())
        return fail_code(ExitCode::refused, "has a file of its own in memory that can't be read: {}",
                         told.problem);
    return {};
}

// A file system of the namespace's own that an earlier one of its mounts shows as well: by which path. "":
// none does, it is the first.
Result<std::string> inside_of(const std::vector<MountLine>& lines, const std::vector<MountLine>& own,
                              const MountLine& line) {
    const auto first = std::ranges::find(own, line.device, &MountLine::device);
    if (first == own.end()) return std::string();
    if (!schema::is_below(line.root, first->root) || is_covered(lines, *first))
        return fail_code(
            ExitCode::refused,
            "has mounted a file system of its own at {} and at {}, of which neither shows all of it, "
            "which can't be saved",
            first->point, line.point);
    return schema::joined(first->point, line.root.substr(first->root == "/" ? 0 : first->root.size()));
}

// Proc of a pid namespace of a user namespace further out tells those in there alone, or above, which one it
// is.
void look_from_above(int owner, int space, const MountLine& line, Procs& procs) {
    for (Fd users(::ioctl(owner, NS_GET_PARENT)); users; users = Fd(::ioctl(users.get(), NS_GET_PARENT))) {
        auto seen = Visit::to(users.get(), space, schema::NamespaceType::mnt,
                              [&](Visit& here) { here.say(pids_shown(line)); });
        if (!seen) return;  // the one that we are in ourselves
        if (const auto shown = seen->next(); shown.starts_with("pid:[")) {
            procs[line.device] = std::strtoull(shown.c_str() + std::strlen("pid:["), nullptr, 10);
            return;
        }
    }
}

}  // namespace

Result<FoundMounts> find_mounts(int owner, int space, Procs& procs) {
    const Fd proc(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto outside = schema::parse_mounts(TRY(proc::read_file("/proc/self/mountinfo")));
    auto seen = TRY(Visit::to(owner, space, schema::NamespaceType::mnt,
                              [&](Visit& here) { look_at_mounts(here, proc.get(), outside); }));
    FoundMounts found;
    std::vector<MountLine> own;  // of file systems that are nowhere else
    const auto lines = schema::parse_mounts(seen.next());
    for (const auto& line : lines) {
        found.ids.insert(line.id);
        const auto inode = std::strtoull(seen.next().c_str(), nullptr, 10);
        schema::Mount mount;
        mount.point = line.point;
        mount.options = line.options;
        mount.shared = line.peers != 0;
        mount.receives = line.receives || is_shared_with(outside, line);
        mount.bindable = line.bindable;
        const auto along = came_along_from(outside, line, found.mounts);
        mount.outside = outside_of(outside, line, inode, along);
        mount.inherited = mount.outside == line.point && is_inherited(outside, line);
        if (!mount.inherited && !along.empty() && mount.outside == along) mount.along = true;
        read_files(seen, mount);
        Told told{inode == 0, std::strtoull(seen.next().c_str(), nullptr, 10), {}};
        told.problem = seen.next();
        if (const auto shown = seen.next(); shown.starts_with("pid:["))
            procs[line.device] = std::strtoull(shown.c_str() + std::strlen("pid:["), nullptr, 10);
        if (line.type == "proc" && mount.outside.empty() && !mount.pids)
            look_from_above(owner, space, line, procs);
        if (const auto known = procs.find(line.device); line.type == "proc" && known != procs.end())
            mount.pids = known->second;
        if (mount.outside.empty()) {
            mount.type = line.type;
            mount.source = line.source;
            mount.data = data_of(line);
            mount.inside = TRY(inside_of(lines, own, line));
            if (mount.inside.empty()) CHECK_OK(check(mount, told));
            own.push_back(line);
        }
        found.mounts.push_back(std::move(mount));
    }
    return found;
}

std::string path_outside(const Table& table, std::int64_t space, const std::string& path, const IsIt& is_it) {
    const auto leads_there = [&](const std::string& candidate) {
        struct stat there {};
        return ::lstat(candidate.c_str(), &there) == 0 && is_it(there);
    };
    if (leads_there(path)) return path;
    const auto* found = table.objects.at(static_cast<std::size_t>(space)).get<schema::Namespace>();
    for (const auto& mount : found->own->mounts) {
        if (mount.outside.empty() || !schema::is_below(path, mount.point)) continue;
        const auto candidate =
            schema::joined(mount.outside, path.substr(mount.point == "/" ? 0 : mount.point.size()));
        if (leads_there(candidate)) return candidate;
    }
    return path;
}

}  // namespace cairn::capture
