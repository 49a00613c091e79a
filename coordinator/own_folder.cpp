#include "coordinator/own_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/fd.h"
#include "common/folder_trust.h"

namespace cairn::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr mode_t others_write = S_IWGRP | S_IWOTH;

std::string owner_problem(const struct stat& status, bool roots_will_do) {
    const uid_t self = ::geteuid();
    if (status.st_uid == self || (roots_will_do && status.st_uid == 0)) return {};
    return "belongs to " + words_for_user(status.st_uid);
}

// As it is, by a descriptor: a link in its place isn't followed unless `links`.
Result<struct stat> look_at(const std::string& path, bool links) {
    struct stat status {};
    const Fd folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | (links ? 0 : O_NOFOLLOW)));
    if (!folder || ::fstat(folder.get(), &status) != 0)
        return fail_errno("{}: the folder for checkpoints can't be used", path);
    return status;
}

// All that is missing on the way. A umask of 0777 would take away what the next one needs: each gets its mode
// before anything is made in it.
Result<> make_way(const std::string& path) {
    std::error_code problem;
    if (fs::is_directory(path, problem)) return {};
    const std::string above = fs::path(path).parent_path().string();
    if (!above.empty() && above != path) CHECK_OK(make_way(above));
    auto made = make_folder(path);
    if (made || made.error().number == EEXIST) return {};
    return std::unexpected(std::move(made.error()).in("the folder for checkpoints can't be made"));
}

Result<> check_root(const std::string& root) {
    auto status = TRY(look_at(root, true));
    const bool sticky = (status.st_mode & S_ISVTX) != 0;
    if (const std::string whose = owner_problem(status, true); !whose.empty())
        return fail_code(ExitCode::refused,
                         "{}, where checkpoints are to go, {}: name a folder of your own (--ckptdir)", root,
                         whose);
    if ((status.st_mode & others_write) != 0 && !sticky)
        return fail_code(
            ExitCode::refused,
            "{}, where checkpoints are to go, can be written by others (mode {:04o}), who could exchange "
            "them: chmod go-w it, or name another folder (--ckptdir)",
            root, status.st_mode & 07777);
    return {};
}

Result<> check_own(const std::string& folder) {
    auto status = TRY(look_at(folder, false));
    if (const std::string whose = owner_problem(status, false); !whose.empty())
        return fail_code(ExitCode::refused,
                         "{}, where this checkpoint is to go, {}: name another folder (--ckptdir)", folder,
                         whose);
    if ((status.st_mode & others_write) != 0)
        return fail_code(
            ExitCode::refused,
            "{}, where this checkpoint is to go, can be written by others (mode {:04o}): chmod go-w it",
            folder, status.st_mode & 07777);
    return {};
}

}  // namespace

Result<> make_folder(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) != 0) return fail_errno("{}", path);
    // The umask may have taken bits away. Opened without following what another may have put in its place.
    const Fd made(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!made || ::fstat(made.get(), &status) != 0) return fail_errno("{}", path);
    if (status.st_uid != ::geteuid())
        return fail_code(ExitCode::refused, "{}: was exchanged by {} while it was made", path,
                         words_for_user(status.st_uid));
    if (::chmod(fmt::format("/proc/self/fd/{}", made.get()).c_str(), 0700) != 0)
        return fail_errno("{}", path);
    return {};
}

std::string link_problem(const std::string& link) {
    struct stat status {};
    if (::lstat(link.c_str(), &status) != 0)
        return errno == ENOENT ? "" : fmt::format("{}: {}", link, std::strerror(errno));
    const std::string advice =
        "it is left alone, and no checkpoint can lead there: move it away, or name another folder "
        "(--ckptdir)";
    if (!S_ISLNK(status.st_mode))
        return fmt::format("{} is in the way, and no link of cairn's: {}", link, advice);
    if (const std::string whose = owner_problem(status, false); !whose.empty())
        return fmt::format("{} is in the way and {}: {}", link, whose, advice);
    return {};
}

Result<> prepare_folder(const std::string& root, const std::string& cid) {
    if (cid.empty() || cid.front() == '.' || cid.find('/') != std::string::npos)
        return fail("'{}' is no name of a computation", cid);
    for (const auto& done : {make_way(root), check_root(root)})
        if (!done) return done;
    const std::string folder = root + "/" + cid;
    if (auto made = make_folder(folder); !made && made.error().number != EEXIST)
        return std::unexpected(std::move(made.error()));
    CHECK_OK(check_own(folder));
    for (const char* name : {"/latest", "/restart.sh"})
        if (const std::string problem = link_problem(root + name); !problem.empty()) {
            ::rmdir(folder.c_str());  // if it has just been made
            return fail_code(ExitCode::refused, "{}", problem);
        }
    return {};
}

std::vector<std::string> doubts(const std::string& checkpoint) {
    const std::string who = who_else_can_write(checkpoint, ::geteuid());
    if (who.empty()) return {};
    return {fmt::format(
        "{}, so others may exchange this checkpoint, and a restart wants to be told --trust-folder", who)};
}

}  // namespace cairn::coordinator
