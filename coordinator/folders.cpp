#include "coordinator/folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/fd.h"
#include "coordinator/own_folder.h"

namespace cairn::coordinator {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
        names.push_back(entry.path().filename().string());
    return names;
}

Result<> sync_folder(const std::string& folder) {
    const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd || ::fsync(fd.get()) != 0) return fail_errno("{}: fsync", folder);
    return {};
}

Result<> write_file(const std::string& path, const std::string& text, mode_t mode) {
    const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!fd) return fail_errno("{}", path);
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t n = ::write(fd.get(), text.data() + done, text.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("{}: write", path);
        done += static_cast<std::size_t>(n);
    }
    // The umask may have taken the x bits that a script needs.
    if (::fchmod(fd.get(), mode) != 0) return fail_errno("{}: chmod", path);
    if (::fsync(fd.get()) != 0) return fail_errno("{}: fsync", path);
    return {};
}

Result<> move_link(const std::string& link, const std::string& target) {
    if (const std::string problem = link_problem(link); !problem.empty())
        return fail_code(ExitCode::refused, "{}", problem);
    const std::string fresh = fmt::format("{}.{}.new", link, ::getpid());
    ::unlink(fresh.c_str());
    if (::symlink(target.c_str(), fresh.c_str()) != 0) return fail_errno("{}: symlink", fresh);
    if (::rename(fresh.c_str(), link.c_str()) != 0) {
        const int number = errno;
        ::unlink(fresh.c_str());
        errno = number;
        return fail_errno("{}: rename from {}", link, fresh);
    }
    return {};
}

void remove_leftovers(const std::string& folder) {
    std::error_code ignored;
    for (const std::string& name : names_in(folder)) {
        const std::string path = fmt::format("{}/{}", folder, name);
        if (name.ends_with(".removed")) {
            fs::remove_all(path, ignored);
        } else if (name.ends_with(".partial")) {
            const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
            if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
            // Another host may have removed what has been locked here, and made it anew.
            struct stat locked {
            }, there{};
            if (::fstat(fd.get(), &locked) == 0 && ::lstat(path.c_str(), &there) == 0 &&
                locked.st_ino == there.st_ino)
                fs::remove_all(path, ignored);
        }
    }
}

Result<> lead_to(const std::string& root, const std::string& cid, std::uint32_t generation,
                 const std::function<void()>& step) {
    const std::string target = fmt::format("{}/{}", cid, generation);
    const std::pair<std::string, std::string> links[] = {{root + "/latest", target},
                                                         {root + "/restart.sh", "latest/restart.sh"}};
    Result<> all;
    for (const auto& [link, leads_to] : links) {
        auto moved = move_link(link, leads_to);
        if (!moved && all) all = std::unexpected(std::move(moved.error()));
        if (step) step();
    }
    auto synced = sync_folder(root);
    return all ? synced : all;
}

}  // namespace cairn::coordinator
