// What of the saved files has to be put back, and making it beside its place.
#include "resources/saved/restore.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "common/image/hash.h"
#include "common/open_exactly.h"
#include "resources/saved/restore_names.h"
#include "resources/saved/schema_files.h"

namespace cairn::restart {
namespace {

using schema::SavedFile;

// One name for one place, so that what a killed restart has left is found and replaced.
std::string name_of_new(const std::string& path) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(path.data());
    return fmt::format("{}{:016x}", new_mark, hash64({bytes, path.size()}));
}

bool same_attributes(const SavedFile& file, const struct stat& now) {
    return now.st_mode == file.mode && now.st_uid == file.user && now.st_gid == file.group;
}

bool same_times(const SavedFile& file, const struct stat& now) {
    return time_in_ns(now.st_mtim) == file.mtime_ns;
}

bool is_inode(const std::string& path, const SavedFile& file) {
    struct stat now {};
    return ::lstat(path.c_str(), &now) == 0 && S_ISREG(now.st_mode) && now.st_dev == file.device &&
           now.st_ino == file.inode;
}

}  // namespace

Result<> set_attributes(int made, const SavedFile& file, const std::string& path) {
    if (::fchown(made, file.user, file.group) != 0)
        return fail_errno("{}: can't be given to user {}, group {} again", path, file.user, file.group);
    if (::fchmod(made, file.mode & 07777) != 0) return fail_errno("{}: mode {:o}", path, file.mode & 07777);
    for (const auto& each : file.attributes)
        if (::fsetxattr(made, each.name.c_str(), each.value.data(), each.value.size(), 0) != 0 &&
            each.name.starts_with("user."))
            return fail_errno("{}: attribute {}", path, each.name);
    return {};
}

bool PutBack::is_in(const std::string& directory) {
    for (const char* name : {saved_list, saved_folder})
        if (::access((directory + "/" + name).c_str(), F_OK) == 0) return true;
    return false;
}

Result<PutBack> PutBack::plan(const std::string& directory,
                              const std::function<std::string(const std::string&)>& now_at,
                              std::vector<std::string>& notes) {
    auto saved = TRY(read_saved_files(directory));
    PutBack all;
    all.directory_ = directory;
    for (const auto& folder : saved.folders) all.folders_.push_back(now_at(folder));
    for (auto& file : saved.files) {
        Entry entry;
        entry.path = now_at(file.path);
        entry.file = std::move(file);
        all.places_.emplace(entry.path, all.entries_.size());
        all.entries_.push_back(std::move(entry));
    }
    CHECK_OK(all.verify());
    for (auto& entry : all.entries_) CHECK_OK(all.look(entry, notes));
    all.separate_links();
    for (std::size_t i = 0; i < all.folders_.size(); ++i)
        CHECK_OK(all.find_extra(all.folders_[i], static_cast<std::int64_t>(i)));
    const auto count = std::ranges::count(all.entries_, Work::put, &Entry::work);
    if (count > 0 || !all.extra_.empty())
        notes.push_back(fmt::format(
            "saved files are put back as they were at the checkpoint: {} of {}{}", count, all.entries_.size(),
            all.extra_.empty()
                ? ""
                : fmt::format(", and {} that weren't there are moved aside", all.extra_.size())));
    return all;
}

Result<> PutBack::verify() const {
    std::set<std::string> done;
    for (const auto& entry : entries_) {
        const auto& file = entry.file;
        if (file.stored.empty() || !done.insert(file.stored).second) continue;
        const auto path = fmt::format("{}/{}/{}", directory_, saved_folder, file.stored);
        const Fd stored(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (!stored)
            return fail_code(ExitCode::damaged,
                             "{}: {}; it has what {} was: take another checkpoint, or --files=use", path,
                             std::strerror(errno), file.path);
        const auto hash = TRY(contents_hash(stored.get()));
        if (hash != file.hash)
            return fail_code(
                ExitCode::damaged,
                "{} is damaged (its checksum differs); it has what {} was: take another checkpoint, or "
                "--files=use",
                path, file.path);
    }
    return {};
}

// What has these times and never had others without a trace has these contents; else they are read.
Result<bool> PutBack::is_as_saved(const Entry& entry, int file, const struct stat& now) const {
    const auto& was = entry.file;
    if (static_cast<std::uint64_t>(now.st_size) != was.size || !same_attributes(was, now)) return false;
    if (was.steady && now.st_dev == was.device && now.st_ino == was.inode && same_times(was, now) &&
        time_in_ns(now.st_ctim) == was.ctime_ns)
        return true;
    const auto hash = TRY(contents_hash(file));
    return hash == was.hash;
}

Result<> PutBack::look(Entry& entry, std::vector<std::string>& notes) const {
    const auto& was = entry.file;
    const bool link = S_ISLNK(was.mode), folder = S_ISDIR(was.mode);
    struct stat now {};
    entry.there = ::lstat(entry.path.c_str(), &now) == 0;
    if (entry.there && (now.st_mode & S_IFMT) == (was.mode & S_IFMT)) {
        if (link) {
            if (link_target(entry.path) == was.target) entry.work = Work::keep;
        } else if (folder) {
            const bool same = same_attributes(was, now) && same_times(was, now);
            entry.work = same ? Work::keep : Work::set_times;
        } else {
            const Fd file = open_exactly(AT_FDCWD, entry.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
            bool same = false;
            if (file) same = TRY(is_as_saved(entry, file.get(), now));
            if (same) entry.work = same_times(was, now) ? Work::keep : Work::set_times;
        }
    }
    if (entry.work != Work::put) return {};
    if (::geteuid() != 0 && was.user != ::geteuid())
        return fail_code(
            ExitCode::refused,
            "{} has changed and belongs to user {}: only root can put it back as it was (--files=use "
            "takes it as it is)",
            entry.path, was.user);
    const auto parent = entry.path.substr(0, std::max<std::size_t>(entry.path.rfind('/'), 1));
    if (::faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0 && errno != ENOENT)
        return fail_code(ExitCode::refused,
                         "{} has changed and can't be put back: {}: {} (--files=use takes it as it is)",
                         entry.path, parent, std::strerror(errno));
    const auto names = std::ranges::count(
        entries_, was.stored, [](const Entry& each) -> const std::string& { return each.file.stored; });
    if (entry.there && S_ISREG(now.st_mode) && !was.stored.empty() &&
        now.st_nlink > static_cast<nlink_t>(names))
        notes.push_back(
            fmt::format("{} has other names that weren't saved: they keep what is there now", entry.path));
    return {};
}

// Names of one inode stay, or are put back, together.
void PutBack::separate_links() {
    std::map<std::string, std::vector<Entry*>> groups;
    for (auto& entry : entries_)
        if (!entry.file.stored.empty()) groups[entry.file.stored].push_back(&entry);
    for (auto& [stored, names] : groups) {
        if (names.size() < 2) continue;
        std::set<std::pair<dev_t, ino_t>> places;
        bool put = false;
        for (const auto* each : names) {
            struct stat now {};
            if (::lstat(each->path.c_str(), &now) == 0) places.insert({now.st_dev, now.st_ino});
            put = put || each->work == Work::put;
        }
        if (put || places.size() != 1)
            for (auto* each : names) each->work = Work::put;
    }
}

Result<> PutBack::find_extra(const std::string& folder, std::int64_t number) {
    DIR* entries = ::opendir(folder.c_str());
    if (entries == nullptr) return {};  // gone: it is made again
    std::vector<std::string> inner;
    while (const dirent* entry = ::readdir(entries)) {
        const std::string name = entry->d_name;
        if (name == "." || name == ".." || is_of_a_restart(name)) continue;
        const auto path = fmt::format("{}/{}", folder, name);
        struct stat now {};
        if (::lstat(path.c_str(), &now) != 0) continue;
        if (!S_ISREG(now.st_mode) && !S_ISDIR(now.st_mode) && !S_ISLNK(now.st_mode)) continue;
        const auto known = places_.find(path);
        if (known == places_.end()) {
            // Checkpoints in the folder, and other file systems, are none of what was saved.
            struct stat here {};
            const bool ours = directory_.starts_with(path + "/");
            const bool mounted = ::lstat(folder.c_str(), &here) == 0 && here.st_dev != now.st_dev;
            if (!ours && !mounted) extra_.emplace_back(path, number);
        } else if (S_ISDIR(now.st_mode) && S_ISDIR(entries_[known->second].file.mode)) {
            inner.push_back(path);
        }
    }
    ::closedir(entries);
    for (const auto& each : inner) CHECK_OK(find_extra(each, number));
    return {};
}

Result<> PutBack::stage() {
    maker_ = ::getpid();
    for (auto& entry : entries_)
        if (S_ISDIR(entry.file.mode) && entry.work == Work::put) CHECK_OK(stage_folder(entry));
    for (auto& entry : entries_)
        if (!S_ISDIR(entry.file.mode) && entry.work == Work::put) CHECK_OK(stage_file(entry));
    // A time that alone has changed is set here already: what is opened is compared with what was.
    for (const auto& entry : entries_) {
        if (entry.work != Work::set_times || S_ISDIR(entry.file.mode)) continue;
        const timespec times[2] = {{0, UTIME_OMIT}, time_of(entry.file.mtime_ns)};
        (void)::utimensat(AT_FDCWD, entry.path.c_str(), times, AT_SYMLINK_NOFOLLOW);
    }
    sync();
    return {};
}

// A missing folder is made where it belongs: it is in nobody's way.
Result<> PutBack::stage_folder(Entry& entry) {
    if (entry.there) CHECK_OK(error_of(keep(entry.path, entry.file.folder, true)));
    const auto parent = TRY(open_parent(entry.path));
    if (::mkdirat(parent.folder.get(), parent.name.c_str(), 0700) != 0 && errno != EEXIST)
        return fail_errno("{}", entry.path);
    const Fd made(
        ::openat(parent.folder.get(), parent.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!made) return fail_errno("{}", entry.path);
    return set_attributes(made.get(), entry.file, entry.path);
}

Result<> PutBack::stage_file(Entry& entry) {
    const auto& file = entry.file;
    const auto parent = TRY(open_parent(entry.path));
    const auto name = name_of_new(entry.path);
    ::unlinkat(parent.folder.get(), name.c_str(), 0);
    if (S_ISLNK(file.mode)) {
        if (::symlinkat(file.target.c_str(), parent.folder.get(), name.c_str()) != 0)
            return fail_errno("{}", entry.path);
        (void)!::fchownat(parent.folder.get(), name.c_str(), file.user, file.group, AT_SYMLINK_NOFOLLOW);
        entry.staged = parent.path + "/" + name;
        return {};
    }
    // Programs know the inode (sqlite won't write to a file that has another one): it is filled again in its
    // place.
    if (is_inode(entry.path, file)) return {};
    for (const auto& other : entries_)
        if (other.file.stored == file.stored && is_inode(other.path, file))
            first_staged_.try_emplace(file.stored, other.path);
    const auto [first, is_first] = first_staged_.try_emplace(file.stored, parent.path + "/" + name);
    if (!is_first) {
        if (::linkat(AT_FDCWD, first->second.c_str(), parent.folder.get(), name.c_str(), 0) != 0)
            return fail_errno("{}, another name of {}", entry.path, first->second);
        entry.staged = parent.path + "/" + name;
        return {};
    }
    const auto stored = fmt::format("{}/{}/{}", directory_, saved_folder, file.stored);
    const Fd from(::open(stored.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!from) return fail_errno("{}", stored);
    const Fd made(::openat(parent.folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!made) return fail_errno("{} can't be put back: {}/{}", entry.path, parent.path, name);
    entry.staged = parent.path + "/" + name;
    auto copied = copy_contents(from.get(), made.get(), file.size);
    if (!copied)
        return std::unexpected(std::move(copied.error()).in(fmt::format("putting {} back", entry.path)));
    CHECK_OK(set_attributes(made.get(), file, entry.path));
    const timespec times[2] = {{0, UTIME_OMIT}, time_of(file.mtime_ns)};
    if (::futimens(made.get(), times) != 0) return fail_errno("{}: time", entry.path);
    return {};
}

const std::string& PutBack::staged(const std::string& path) const {
    static const std::string none;
    const auto found = places_.find(path);
    return found == places_.end() || committed_ ? none : entries_[found->second].staged;
}

}  // namespace cairn::restart
