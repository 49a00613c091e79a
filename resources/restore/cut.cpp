#include "resources/restore/cut.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/folder_trust.h"
#include "common/open_exactly.h"
#include "resources/file/schema_identity.h"

namespace cairn::restart {
namespace {

struct Aside {
    Fd folder, file;
    std::string name, path;
};

// A name that nobody has yet, in the folder that `path` names.
Result<Aside> make_in(const std::string& folder, const std::string& name, const Rights& rights) {
    const auto acting = TRY(ActingAs::begin(rights));
    Fd there = open_exactly(AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!there) return fail_errno("{}", folder);
    for (int number = 1; number < 10000; ++number) {
        const std::string fresh = fmt::format("{}.cut-{}", name, number);
        Fd file(
            ::openat(there.get(), fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (file) return Aside{std::move(there), std::move(file), fresh, folder + "/" + fresh};
        if (errno != EEXIST) return fail_errno("{}/{}", folder, fresh);
    }
    return fail("{}: thousands of {}.cut-N are there already", folder, name);
}

// From `from` to the file's end as it is by then. Returns where that was.
Result<std::uint64_t> copy(int from, std::uint64_t at, const Aside& aside) {
    std::array<char, 65536> buffer;
    for (;;) {
        const ssize_t got = ::pread(from, buffer.data(), buffer.size(), static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno("reading at {}", at);
        if (got == 0) return at;
        for (ssize_t done = 0; done < got;) {
            const ssize_t wrote =
                ::write(aside.file.get(), buffer.data() + done, static_cast<std::size_t>(got - done));
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote < 0) return fail_errno("{}", aside.path);
            done += wrote;
        }
        at += static_cast<std::uint64_t>(got);
    }
}

Result<> copy_and_cut(const Cut& cut, const Aside& aside) {
    std::uint64_t at = cut.size;
    for (;;) {
        auto end = TRY(copy(cut.file.get(), at, aside));
        if (::fsync(aside.file.get()) != 0) return fail_errno("{}", aside.path);
        struct stat status {};
        if (::fstat(cut.file.get(), &status) != 0) return fail_errno("{}", cut.path);
        at = end;
        if (static_cast<std::uint64_t>(status.st_size) <= at) break;
    }
    if (::ftruncate(cut.file.get(), static_cast<off_t>(cut.size)) != 0)
        return fail_errno("{}: can't be cut back to {} bytes", cut.path, cut.size);
    return {};
}

// A process that has the file open for writing, as far as we may know: others' we are shown as root only.
std::string writer_of(const struct stat& file) {
    std::error_code problem;
    for (const auto& process : std::filesystem::directory_iterator("/proc", problem)) {
        const std::string pid = process.path().filename().string();
        if (pid.find_first_not_of("0123456789") != std::string::npos || pid == std::to_string(::getpid()))
            continue;
        for (const auto& entry : std::filesystem::directory_iterator(process.path() / "fd", problem)) {
            struct stat status {
            }, link{};
            // The mode of the link says what the descriptor is open for.
            if (::stat(entry.path().c_str(), &status) != 0 || !same_inode(status, file)) continue;
            if (::lstat(entry.path().c_str(), &link) != 0 || (link.st_mode & S_IWUSR) == 0) continue;
            return fmt::format("process {} has it open", pid);
        }
    }
    return {};
}

}  // namespace

std::string who_else_appends(const schema::Object& object, const FoundFile& found, const Access& access) {
    if (object.standard.known())
        return "it was somebody's standard output, and may be that of other programs as well";
    if ((found.status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "other users may write it";
    const auto holders = access.of(object.id);
    if (std::ranges::none_of(holders,
                             [&](const Rights& rights) { return rights.user == found.status.st_uid; }))
        return "it belongs to " + words_for_user(found.status.st_uid);
    return writer_of(found.status);
}

Result<std::string> cut_back(const Cut& cut, const std::string& directory) {
    struct stat status {};
    if (::fstat(cut.file.get(), &status) != 0) return fail_errno("{}", cut.path);
    if (static_cast<std::uint64_t>(status.st_size) <= cut.size) return std::string();
    const auto slash = cut.path.rfind('/');
    const auto attempt = [&](const std::string& folder, const Rights& rights) -> Result<std::string> {
        auto aside = TRY(make_in(folder, cut.path.substr(slash + 1), rights));
        auto done = copy_and_cut(cut, aside);
        if (done) return aside.path;
        ::unlinkat(aside.folder.get(), aside.name.c_str(), 0);
        return std::unexpected(std::move(done.error()));
    };
    // Beside the file as its user would, who may read what is put there; else with the checkpoint.
    auto beside = attempt(cut.path.substr(0, std::max<std::size_t>(slash, 1)), cut.rights);
    if (beside || directory.empty()) return beside;
    auto with_image = attempt(directory, own_rights());
    if (with_image) return with_image;
    return fail("{} isn't cut back, for what would be lost can't be put aside: {}; {}", cut.path,
                beside.error().what, with_image.error().what);
}

}  // namespace cairn::restart
