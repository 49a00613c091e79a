// Contents of saved files: links to the generation before, clones, copies.
#include "resources/saved/capture_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "common/open_exactly.h"
#include "resources/saved/schema_files.h"

namespace cairn::capture {
namespace {

using schema::SavedFile;

// The kernel stamps a write with the time of its last tick, and ext4 with small inodes with whole seconds: a
// file that has changed as recently as that may change once more under the same time.
constexpr std::int64_t grain_ns = 2'000'000'000;

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return time_in_ns(now);
}

bool same_times_and_size(const SavedFile& file, const struct stat& now) {
    return file.size == static_cast<std::uint64_t>(now.st_size) && file.mtime_ns == time_in_ns(now.st_mtim) &&
           file.ctime_ns == time_in_ns(now.st_ctim);
}

FilePlace place_of(const SavedFile& file) {
    return {file.device, file.inode};
}

// All CPUs read while everybody stands still, and none but ours while the programs run.
std::size_t helpers_now(bool ahead) {
    constexpr unsigned most = 8;
    return ahead ? 0 : std::clamp(std::thread::hardware_concurrency(), 1U, most) - 1;
}

}  // namespace

bool tells_of_writes(int file) {
    constexpr long xfs = 0x58465342;
    struct statfs system {};
    if (::fstatfs(file, &system) != 0) return false;
    const std::array known = {long{EXT4_SUPER_MAGIC}, xfs, long{BTRFS_SUPER_MAGIC}, long{TMPFS_MAGIC},
                              long{F2FS_SUPER_MAGIC}};
    return std::ranges::find(known, system.f_type) != known.end();
}

Result<std::vector<std::string>> names_in_folder(int folder) {
    const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* entries = again < 0 ? nullptr : ::fdopendir(again);
    if (entries == nullptr) return fail_errno("reading a folder");
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(entries))
        if (const std::string_view name = entry->d_name; name != "." && name != "..")
            names.emplace_back(name);
    ::closedir(entries);
    std::ranges::sort(names);
    return names;
}

Result<SavedStore> SavedStore::make(int directory, const std::string& previous) {
    SavedStore store;
    if (::mkdirat(directory, saved_folder, 0700) != 0 && errno != EEXIST)
        return fail_errno("{}", saved_folder);
    store.store_.reset(::openat(directory, saved_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!store.store_) return fail_errno("{}", saved_folder);
    if (previous.empty()) return store;
    // One that can't be read is no loss but of time.
    auto read = read_saved_files(previous);
    if (!read) return store;
    store.previous_store_.reset(
        ::open((previous + "/" + saved_folder).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (auto& file : read->files)
        if (S_ISREG(file.mode) && file.steady) store.previous_.emplace(place_of(file), std::move(file));
    return store;
}

Result<Fd> SavedStore::open_new(const std::string& name) const {
    Fd copy(::openat(store_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!copy) return fail_errno("{}/{}", saved_folder, name);
    return copy;
}

bool SavedStore::link_previous(Copy& copy, const SavedFile& file, const std::set<FilePlace>& mapped) {
    const auto found = previous_.find(place_of(file));
    if (found == previous_.end() || mapped.contains(found->first)) return false;
    const SavedFile& old = found->second;
    if (old.size != file.size || old.mtime_ns != file.mtime_ns || old.ctime_ns != file.ctime_ns ||
        old.stored.empty())
        return false;
    const auto name = new_name();
    if (::linkat(previous_store_.get(), old.stored.c_str(), store_.get(), name.c_str(), 0) != 0) return false;
    copy.name = name;
    copy.how = How::linked;
    copy.file.hash = old.hash;
    return true;
}

// `copy` gets the contents that the file has now. A linked one is another generation's as well, and isn't
// written to.
Result<std::uint64_t> SavedStore::bring(Copy& copy, int opened, std::uint64_t size, bool ahead,
                                        const CopyTold& told) {
    Fd to;
    if (copy.how == How::linked || copy.name.empty()) {
        if (!copy.name.empty()) ::unlinkat(store_.get(), copy.name.c_str(), 0);
        copy.name = new_name();
        copy.how = How::plain;
        to = TRY(open_new(copy.name));
    } else {
        to.reset(::openat(store_.get(), copy.name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
        if (!to) return fail_errno("{}/{}", saved_folder, copy.name);
    }
    copy.file.hash = 0;
    // A clone waits until what is dirty of the source is on the disk: ahead, so that it hasn't to in the
    // pause.
    if (copy.how != How::copied && size > 0 && ::ioctl(to.get(), FICLONE, opened) == 0) {
        if (::ftruncate(to.get(), static_cast<off_t>(size)) != 0) return fail_errno("writing the copy");
        copy.how = How::cloned;
        CHECK_OK(told(size));
        return 0;
    }
    if (copy.how != How::copied) copy.blocks = {};
    copy.how = How::copied;
    return copy.blocks.update(opened, to.get(), size, helpers_now(ahead), told);
}

Result<std::uint64_t> SavedStore::copy_ahead(const std::vector<SavedFile>& files,
                                             const std::set<FilePlace>& mapped, bool doubtful,
                                             const CopyTold& told) {
    std::uint64_t written = 0;
    std::set<FilePlace> seen;
    const auto before = now_ns() - grain_ns;
    for (const auto& file : files) {
        if (!S_ISREG(file.mode) || !seen.insert(place_of(file)).second) continue;
        auto& copy = copies_[place_of(file)];
        const bool same = !copy.name.empty() && copy.file.size == file.size &&
                          copy.file.mtime_ns == file.mtime_ns && copy.file.ctime_ns == file.ctime_ns;
        if (same && (copy.how == How::linked || copy.steady)) continue;
        const Fd opened =
            open_exactly(AT_FDCWD, file.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
        struct stat status {};
        // Gone, or another one by now: the pause looks again.
        if (!opened || ::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
            FilePlace{status.st_dev, status.st_ino} != place_of(file)) {
            copy.steady = false;
            continue;
        }
        copy.file = file;
        copy.steady = !doubtful && !mapped.contains(place_of(file)) && tells_of_writes(opened.get()) &&
                      file.ctime_ns < before && file.mtime_ns < before;
        if (copy.name.empty() && link_previous(copy, file, mapped)) {
            copy.file.stored = copy.name;
            copy.file.steady = true;
            continue;
        }
        auto done = bring(copy, opened.get(), static_cast<std::uint64_t>(status.st_size), true, told);
        if (!done) return std::unexpected(std::move(done.error()).in(fmt::format("saving {}", file.path)));
        written += *done;
        copy.file.stored = copy.name;
        copy.file.steady = copy.steady;
    }
    return written;
}

const SavedFile* SavedStore::unchanged(const struct stat& status, const std::set<FilePlace>& mapped) const {
    const FilePlace place{status.st_dev, status.st_ino};
    const auto found = copies_.find(place);
    if (found == copies_.end() || found->second.name.empty() || mapped.contains(place)) return nullptr;
    const auto& copy = found->second;
    if (!same_times_and_size(copy.file, status)) return nullptr;
    // What the generation before has was made when all stood still, as this is asked.
    if (copy.how == How::linked) return &copy.file;
    return copy.steady ? &copy.file : nullptr;
}

Result<> SavedStore::store(SavedFile& file, int opened, const std::set<FilePlace>& mapped,
                           const CopyTold& told) {
    struct stat status {};
    if (::fstat(opened, &status) != 0) return fail_errno("{}", file.path);
    auto& copy = copies_[place_of(file)];
    if (unchanged(status, mapped) == nullptr && !(copy.name.empty() && link_previous(copy, file, mapped))) {
        copy.steady = false;  // of this moment, and a later try is at another one
        auto done = bring(copy, opened, static_cast<std::uint64_t>(status.st_size), false, told);
        if (!done) return std::unexpected(std::move(done.error()).in(fmt::format("saving {}", file.path)));
    }
    file.stored = copy.name;
    file.hash = copy.file.hash;
    return {};
}

void SavedStore::keep_only(const std::vector<SavedFile>& files) {
    std::set<std::string> wanted;
    for (const auto& file : files) wanted.insert(file.stored);
    for (const auto& [place, copy] : copies_)
        if (!copy.name.empty() && !wanted.contains(copy.name)) ::unlinkat(store_.get(), copy.name.c_str(), 0);
}

}  // namespace cairn::capture
