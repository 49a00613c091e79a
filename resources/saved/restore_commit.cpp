// Saved files take their places, and what was there instead is kept.
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <set>

#include "common/human.h"
#include "common/open_exactly.h"
#include "resources/saved/restore.h"
#include "resources/saved/restore_names.h"
#include "resources/saved/schema_files.h"

namespace cairn::restart {

Result<Parent> open_parent(const std::string& path) {
    const auto slash = path.rfind('/');
    Parent parent;
    parent.path = path.substr(0, std::max<std::size_t>(slash, 1));
    parent.name = path.substr(slash + 1);
    parent.folder = open_exactly(AT_FDCWD, parent.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!parent.folder) return fail_errno("{}", parent.path);
    return parent;
}

std::string link_target(const std::string& path) {
    std::array<char, PATH_MAX> target;
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    return length < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(length));
}

namespace {

constexpr int most_kept = 100000;

std::string beside(const std::string& path, int number) {
    return fmt::format("{}{}{}", path, after_mark, number);
}

dev_t device_of(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? status.st_dev : 0;
}

// A second name while the first is still there, so that it never leads to nothing; where the kernel forbids
// that (fs.protected_hardlinks), and for folders, it is moved.
bool name_again(const std::string& path, const std::string& kept, bool move) {
    if (!move && ::linkat(AT_FDCWD, path.c_str(), AT_FDCWD, kept.c_str(), 0) == 0) return true;
    if (!move && errno == EEXIST) return false;
    return ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, kept.c_str(), RENAME_NOREPLACE) == 0;
}

Result<> make_folders(const std::string& base, const std::string& inner) {
    for (std::size_t at = inner.find('/', 1); at != std::string::npos; at = inner.find('/', at + 1)) {
        const auto folder = base + inner.substr(0, at);
        if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("{}", folder);
    }
    return {};
}

}  // namespace

namespace {

// A copy of what a file has now, on the disk. False: there is something of that name.
Result<bool> copy_aside(int file, const std::string& kept) {
    struct stat now {};
    if (::fstat(file, &now) != 0) return fail_errno("{}", kept);
    const Fd copy(::open(kept.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!copy && errno == EEXIST) return false;
    if (!copy) return fail_errno("{}", kept);
    CHECK_OK(copy_contents(file, copy.get(), static_cast<std::uint64_t>(now.st_size)));
    (void)!::fchown(copy.get(), now.st_uid, now.st_gid);
    (void)!::fchmod(copy.get(), now.st_mode & 07777);
    if (::fsync(copy.get()) != 0) return fail_errno("{}", kept);
    return true;
}

// The inode stays. Whoever is killed in the midst leaves half of it, and the next restart begins again: what
// was there is kept already.
Result<> fill_again(const std::string& stored, int file, const schema::SavedFile& was,
                    const std::string& path) {
    const Fd from(::open(stored.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!from) return fail_errno("{}", stored);
    if (::ftruncate(file, 0) != 0) return fail_errno("{}: putting it back", path);
    auto copied = copy_contents(from.get(), file, was.size);
    if (!copied) return std::unexpected(std::move(copied.error()).in(fmt::format("putting {} back", path)));
    CHECK_OK(set_attributes(file, was, path));
    const timespec times[2] = {{0, UTIME_OMIT}, time_of(was.mtime_ns)};
    if (::futimens(file, times) != 0 || ::fsync(file) != 0) return fail_errno("{}: putting it back", path);
    return {};
}

// The owner's mode may forbid it to himself.
Fd open_to_fill(const std::string& path, const schema::SavedFile& was) {
    const Fd place = open_exactly(AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (!place) return {};
    const auto by_descriptor = fmt::format("/proc/self/fd/{}", place.get());
    Fd file(::open(by_descriptor.c_str(), O_RDWR | O_CLOEXEC));
    if (file || errno != EACCES) return file;
    if (::chmod(by_descriptor.c_str(), (was.mode & 07777) | S_IRUSR | S_IWUSR) != 0) return {};
    return Fd(::open(by_descriptor.c_str(), O_RDWR | O_CLOEXEC));
}

}  // namespace

// Beside the folder; in it where that is another file system or can't be written to.
Result<std::string> PutBack::place_for_kept(std::int64_t number) {
    if (const auto known = kept_.find(number); known != kept_.end()) return known->second.path;
    const auto& folder = folders_.at(static_cast<std::size_t>(number));
    const auto device = device_of(folder);
    for (const auto& name : {folder, folder + "/"})
        for (int i = 1; i < most_kept; ++i) {
            auto path = beside(name, i);
            if (::mkdir(path.c_str(), 0700) != 0) {
                if (errno == EEXIST) continue;
                break;
            }
            if (device_of(path) != device) {
                ::rmdir(path.c_str());
                break;
            }
            kept_[number].path = path;
            return path;
        }
    return fail("{}: no place for what was written in it since the checkpoint", folder);
}

Result<std::string> PutBack::keep(const std::string& path, std::int64_t folder, bool move) {
    if (folder >= 0 && path != folders_.at(static_cast<std::size_t>(folder))) {
        const auto place = TRY(place_for_kept(folder));
        const auto inner = path.substr(folders_[static_cast<std::size_t>(folder)].size());
        CHECK_OK(make_folders(place, inner));
        if (!name_again(path, place + inner, move))
            return fail_errno("{}: can't be kept as {}", path, place + inner);
        ++kept_[folder].files;
        return place + inner;
    }
    for (int i = 1; i < most_kept; ++i) {
        auto kept = beside(path, i);
        if (name_again(path, kept, move)) return kept;
        if (errno != EEXIST) return fail_errno("{}: can't be kept as {}", path, kept);
    }
    return fail("{}: too many of {}{}N are there", path, path, after_mark);
}

Result<> PutBack::put_in_place(Entry& entry, std::vector<std::string>& notes) {
    if (entry.staged.empty()) {
        const auto& was = entry.file;
        const Fd file = open_to_fill(entry.path, was);
        if (!file) return fail_errno("{}: putting it back", entry.path);
        std::string kept;
        if (was.folder >= 0) {
            const auto place = TRY(place_for_kept(was.folder));
            const auto inner = entry.path.substr(folders_.at(static_cast<std::size_t>(was.folder)).size());
            CHECK_OK(make_folders(place, inner));
            kept = place + inner;
            CHECK_OK(error_of(copy_aside(file.get(), kept)));
            ++kept_[was.folder].files;
        }
        for (int i = 1; kept.empty() && i < most_kept; ++i)
            if (TRY(copy_aside(file.get(), beside(entry.path, i)))) kept = beside(entry.path, i);
        CHECK_OK(fill_again(fmt::format("{}/{}/{}", directory_, saved_folder, was.stored), file.get(), was,
                            entry.path));
        if (was.folder < 0)
            notes.push_back(
                fmt::format("{} is put back as it was at the checkpoint; what was there is kept in {}",
                            entry.path, kept));
        return {};
    }
    if (entry.there) {
        const auto kept = TRY(keep(entry.path, entry.file.folder, !S_ISREG(entry.file.mode)));
        if (entry.file.folder < 0)
            notes.push_back(
                fmt::format("{} is put back as it was at the checkpoint; what was there is kept in {}",
                            entry.path, kept));
    } else if (entry.file.folder < 0) {
        notes.push_back(fmt::format("{} was gone, and is put back as it was at the checkpoint", entry.path));
    }
    if (::rename(entry.staged.c_str(), entry.path.c_str()) != 0)
        return fail_errno("{}: putting it back", entry.path);
    entry.staged.clear();
    return {};
}

Result<> PutBack::commit(std::vector<std::string>& notes) {
    for (const auto& [path, folder] : extra_) {
        auto kept = keep(path, folder, true);
        if (!kept && kept.error().number != ENOENT) return std::unexpected(std::move(kept.error()));
    }
    std::set<std::string> filled;  // by one of their names
    for (auto& entry : entries_) {
        if (entry.work != Work::put || S_ISDIR(entry.file.mode)) continue;
        if (entry.staged.empty() && !filled.insert(entry.file.stored).second) continue;
        CHECK_OK(put_in_place(entry, notes));
    }
    // From the innermost: what is put into a folder changes its time.
    for (const auto& entry : entries_ | std::views::reverse) {
        if (!S_ISDIR(entry.file.mode)) continue;
        const timespec times[2] = {{0, UTIME_OMIT}, time_of(entry.file.mtime_ns)};
        (void)::fchmodat(AT_FDCWD, entry.path.c_str(), entry.file.mode & 07777, 0);
        (void)::utimensat(AT_FDCWD, entry.path.c_str(), times, AT_SYMLINK_NOFOLLOW);
    }
    sync();
    committed_ = true;
    for (const auto& [number, kept] : kept_)
        notes.push_back(
            fmt::format("{} is put back as it was at the checkpoint; what was written in it since is kept "
                        "in {} ({})",
                        folders_.at(static_cast<std::size_t>(number)), kept.path,
                        human_count(kept.files, "file", "files")));
    return {};
}

// Each file system once.
void PutBack::sync() {
    std::set<dev_t> done;
    for (const auto& entry : entries_) {
        if (entry.work == Work::keep) continue;
        const auto parent = open_parent(entry.path);
        if (!parent || !done.insert(device_of(parent->path)).second) continue;
        const Fd folder(::open(parent->path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (folder) (void)::syncfs(folder.get());
    }
}

PutBack::~PutBack() {
    if (maker_ != ::getpid()) return;
    for (const auto& entry : entries_)
        if (!entry.staged.empty()) ::unlink(entry.staged.c_str());
}

}  // namespace cairn::restart
