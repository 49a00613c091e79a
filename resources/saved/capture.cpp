// Which files and folders are saved, and what is written down of each.
#include "resources/saved/capture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/open_exactly.h"
#include "resources/saved/schema_files.h"

namespace cairn::capture {
namespace {

using schema::SavedFile;

constexpr std::int64_t grain_ns = 2'000'000'000;  // as in capture_store.cpp

class Saver {
  public:
    // Without a store it lists only.
    Saver(const SavedFilesWanted& wanted, SavedStore* store, const CopyTold& told,
          std::vector<std::string>& notes)
        : wanted_(wanted), store_(store), told_(told), notes_(notes) {
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        now_ns_ = time_in_ns(now);
        saved_.cid = wanted.cid;
        saved_.folders = wanted.folders;
    }

    Result<schema::SavedFiles> run() {
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
            if (!opened && store_ == nullptr) continue;
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
        auto names = names_in_folder(folder);
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
        // Most files of most folders are as they were: nothing more is asked of them.
        if (S_ISREG(status.st_mode) && take_unchanged(path, status)) return {};
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

    void add_stored(const std::string& path, const struct stat& status, const SavedFile& as) {
        SavedFile& file = add(path, status);
        file.attributes = as.attributes;
        file.stored = as.stored;
        file.hash = as.hash;
        file.steady = as.steady;
        stored_.emplace(FilePlace{file.device, file.inode}, saved_.files.size() - 1);
    }

    // Another name of what is saved already, or what was brought ahead and is still so.
    bool take_unchanged(const std::string& path, const struct stat& status) {
        if (store_ == nullptr) return false;
        const FilePlace place{status.st_dev, status.st_ino};
        if (const auto other = stored_.find(place); other != stored_.end()) {
            const SavedFile as = saved_.files[other->second];
            add_stored(path, status, as);
            return true;
        }
        const auto* ahead = store_->unchanged(status, wanted_.mapped);
        if (ahead == nullptr) return false;
        add_stored(path, status, *ahead);
        return true;
    }

    Result<> save_file(int opened, const std::string& path, const struct stat& status) {
        if (take_unchanged(path, status)) return {};
        SavedFile& file = add(path, status);
        file.attributes = attributes_of(opened);
        const FilePlace place{file.device, file.inode};
        file.steady = tells_of_writes(opened) && !wanted_.mapped.contains(place) &&
                      file.ctime_ns < now_ns_ - grain_ns && file.mtime_ns < now_ns_ - grain_ns;
        stored_.emplace(place, saved_.files.size() - 1);
        if (store_ == nullptr) return {};
        return store_->store(file, opened, wanted_.mapped, told_);
    }

    const SavedFilesWanted& wanted_;
    SavedStore* store_;
    const CopyTold& told_;
    std::vector<std::string>& notes_;
    std::int64_t now_ns_ = 0;
    schema::SavedFiles saved_;
    std::int64_t folder_ = -1;
    std::map<FilePlace, std::size_t> stored_;  // the first name of each
    std::set<std::string> paths_;
};

}  // namespace

Result<schema::SavedFiles> list_files(const SavedFilesWanted& wanted) {
    std::vector<std::string> notes;  // said again by the one that counts
    const CopyTold nobody;
    return Saver(wanted, nullptr, nobody, notes).run();
}

Result<schema::SavedFiles> save_files(SavedStore& store, const SavedFilesWanted& wanted, const CopyTold& told,
                                      std::vector<std::string>& notes) {
    return Saver(wanted, &store, told, notes).run();
}

Result<> finish_saved_files(int directory, SavedStore& ahead, schema::SavedFiles& saved) {
    ahead.keep_only(saved.files);
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
