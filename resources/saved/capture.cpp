// Saves files and folders of the moment.
#include "resources/saved/capture.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "common/fd.h"
#include "common/open_exactly.h"
#include "resources/saved/schema_files.h"

namespace cairn::capture {
namespace {

using schema::SavedFile;
using FilePlace = std::pair<std::uint64_t, std::uint64_t>;

// Where a write always sets the times of the inode, by this machine's clock. On others (network file systems,
// FUSE) nothing is concluded from them.
bool tells_of_writes(int file) {
    constexpr long xfs = 0x58465342;
    struct statfs system {};
    if (::fstatfs(file, &system) != 0) return false;
    const std::array known = {long{EXT4_SUPER_MAGIC}, xfs, long{BTRFS_SUPER_MAGIC}, long{TMPFS_MAGIC},
                              long{F2FS_SUPER_MAGIC}};
    return std::ranges::find(known, system.f_type) != known.end();
}

// The kernel stamps a write with the time of its last tick, and ext4 with small inodes with whole seconds: a
// file that has changed as recently as that may change once more under the same time.
constexpr std::int64_t grain_ns = 2'000'000'000;

class Saver {
  public:
    Saver(int directory, const SavedFilesWanted& wanted, std::vector<std::string>& notes)
        : directory_(directory), wanted_(wanted), notes_(notes) {
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        now_ns_ = time_in_ns(now);
        saved_.cid = wanted.cid;
        saved_.folders = wanted.folders;
    }

    Result<schema::SavedFiles> run() {
        CHECK_OK(make_store());
        remember_previous();
        for (std::size_t i = 0; i < wanted_.folders.size(); ++i) {
            const auto& path = wanted_.folders[i];
            const Fd folder = open_exactly(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (!folder) return fail_errno("--with {}", path);
            folder_ = static_cast<std::int64_t>(i);
            CHECK_OK(save_folder(folder.get(), path));
        }
        folder_ = -1;
        for (const auto& file : wanted_.files) {
            if (paths_.contains(file.path)) continue;
            const Fd opened = open_exactly(AT_FDCWD, file.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
            if (!opened)
                return fail_errno("--files=save: {}, which is open for writing, can't be read", file.path);
            struct stat status {};
            if (::fstat(opened.get(), &status) != 0) return fail_errno("{}", file.path);
            if (status.st_dev != file.device || status.st_ino != file.inode) {
                notes_.push_back(
                    fmt::format("{} is another file by now than the one that is open: not saved", file.path));
                continue;
            }
            CHECK_OK(save_file(opened.get(), file.path, status));
        }
        return std::move(saved_);
    }

  private:
    // An attempt before this one may have left something in it.
    Result<> make_store() {
        if (::mkdirat(directory_, saved_folder, 0700) != 0 && errno != EEXIST)
            return fail_errno("{}", saved_folder);
        store_.reset(::openat(directory_, saved_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        if (!store_) return fail_errno("{}", saved_folder);
        const auto names = TRY(names_in(store_.get()));
        for (const auto& name : names) ::unlinkat(store_.get(), name.c_str(), 0);
        return {};
    }

    // One that can't be read is no loss but of time.
    void remember_previous() {
        if (wanted_.previous.empty()) return;
        auto read = read_saved_files(wanted_.previous);
        if (!read) return;
        previous_store_.reset(
            ::open((wanted_.previous + "/" + saved_folder).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        for (auto& file : read->files)
            if (S_ISREG(file.mode) && file.steady)
                previous_.emplace(FilePlace{file.device, file.inode}, std::move(file));
    }

    static Result<std::vector<std::string>> names_in(int folder) {
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

    SavedFile& add(const std::string& path, const struct stat& status) {
        SavedFile file;
        file.path = path;
        file.folder = folder_;
        file.device = status.st_dev;
        file.inode = status.st_ino;
        file.mode = status.st_mode;
        file.user = status.st_uid;
        file.group = status.st_gid;
        file.mtime_ns = time_in_ns(status.st_mtim);
        file.ctime_ns = time_in_ns(status.st_ctim);
        if (S_ISREG(status.st_mode)) file.size = static_cast<std::uint64_t>(status.st_size);
        paths_.insert(path);
        return saved_.files.emplace_back(std::move(file));
    }

    Result<> save_folder(int folder, const std::string& path) {
        struct stat status {};
        if (::fstat(folder, &status) != 0) return fail_errno("{}", path);
        add(path, status).attributes = attributes_of(folder);
        auto names = names_in(folder);
        if (!names) return std::unexpected(std::move(names.error()).in(path));
        for (const auto& name : *names) {
            const std::string inner = (path == "/" ? "" : path) + "/" + name;
            if (is_of_a_restart(name) || inner == wanted_.images || paths_.contains(inner)) continue;
            CHECK_OK(save_entry(folder, name, inner, status.st_dev));
        }
        return {};
    }

    Result<> save_entry(int folder, const std::string& name, const std::string& path, dev_t device) {
        struct stat status {};
        if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT) return {};  // somebody outside has removed it
            return fail_errno("{}", path);
        }
        if (status.st_dev != device) {
            notes_.push_back(fmt::format(
                "{} is another file system: not saved with its folder (--with {} saves it)", path, path));
            return {};
        }
        if (S_ISLNK(status.st_mode)) {
            std::string target(static_cast<std::size_t>(std::max<off_t>(status.st_size, 0)) + 4096, '\0');
            const ssize_t length = ::readlinkat(folder, name.c_str(), target.data(), target.size());
            if (length < 0) return fail_errno("{}", path);
            target.resize(static_cast<std::size_t>(length));
            add(path, status).target = std::move(target);
            return {};
        }
        // Sockets and FIFOs are of their owners, and saved where they are open; devices are the machine's.
        if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return {};
        const Fd opened(::openat(folder, name.c_str(),
                                 O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW |
                                     (S_ISDIR(status.st_mode) ? O_DIRECTORY : 0)));
        if (!opened && errno == ENOENT) return {};
        if (!opened) return fail_errno("{} can't be read, and so not be saved", path);
        if (S_ISDIR(status.st_mode)) return save_folder(opened.get(), path);
        if (::fstat(opened.get(), &status) != 0) return fail_errno("{}", path);
        return save_file(opened.get(), path, status);
    }

    Result<> save_file(int opened, const std::string& path, const struct stat& status) {
        SavedFile& file = add(path, status);
        file.attributes = attributes_of(opened);
        const FilePlace place{file.device, file.inode};
        file.steady = tells_of_writes(opened) && !wanted_.mapped.contains(place) &&
                      file.ctime_ns < now_ns_ - grain_ns && file.mtime_ns < now_ns_ - grain_ns;
        if (const auto other = stored_.find(place); other != stored_.end()) {  // another name of it
            file.stored = other->second;
            return {};
        }
        file.stored = std::to_string(stored_.size());
        stored_[place] = file.stored;
        if (link_previous(file)) return {};
        const Fd copy(
            ::openat(store_.get(), file.stored.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (!copy) return fail_errno("{}/{}", saved_folder, file.stored);
        auto done = copy_contents(opened, copy.get(), file.size);
        if (!done) return std::unexpected(std::move(done.error()).in(fmt::format("saving {}", path)));
        return {};
    }

    bool link_previous(SavedFile& file) {
        const auto found = previous_.find({file.device, file.inode});
        if (found == previous_.end() || wanted_.mapped.contains(found->first)) return false;
        const SavedFile& old = found->second;
        if (old.size != file.size || old.mtime_ns != file.mtime_ns || old.ctime_ns != file.ctime_ns ||
            old.stored.empty() ||
            ::linkat(previous_store_.get(), old.stored.c_str(), store_.get(), file.stored.c_str(), 0) != 0)
            return false;
        file.hash = old.hash;
        return true;
    }

    int directory_;
    const SavedFilesWanted& wanted_;
    std::vector<std::string>& notes_;
    std::int64_t now_ns_ = 0;
    schema::SavedFiles saved_;
    std::int64_t folder_ = -1;
    Fd store_, previous_store_;
    std::map<FilePlace, SavedFile> previous_;
    std::map<FilePlace, std::string> stored_;
    std::set<std::string> paths_;
};

}  // namespace

Result<schema::SavedFiles> save_files(int directory, const SavedFilesWanted& wanted,
                                      std::vector<std::string>& notes) {
    return Saver(directory, wanted, notes).run();
}

Result<> finish_saved_files(int directory, schema::SavedFiles& saved) {
    const Fd store(::openat(directory, saved_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!store) return fail_errno("{}", saved_folder);
    std::map<std::string, std::uint64_t> hashes;
    for (auto& file : saved.files) {
        if (file.stored.empty()) continue;
        if (const auto known = hashes.find(file.stored); known != hashes.end()) {
            file.hash = known->second;
            continue;
        }
        if (file.hash == 0) {
            const Fd copy(::openat(store.get(), file.stored.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
            if (!copy) return fail_errno("{}/{}", saved_folder, file.stored);
            file.hash = TRY(contents_hash(copy.get()));
        }
        hashes[file.stored] = file.hash;
    }
    // One call for all of them: a folder may have thousands.
    if (::syncfs(store.get()) != 0) return fail_errno("{}: can't be brought to the disk", saved_folder);
    return write_saved_files(directory, saved);
}

}  // namespace cairn::capture
