#include "cli/service/claim.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/job/saved.h"

namespace cairn::service {
namespace {

namespace fs = std::filesystem;

// Computations whose end has begun.
constexpr const char* ended_prefix = ".ended-";

std::string lock_file(const std::string& folder) {
    return folder + "/.lock";
}

struct flock whole_file() {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return lock;
}

bool is_number(const std::string& name) {
    return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

// COMPUTATION/GENERATION/manifest.json, or what a checkpoint that was being written has left.
bool is_computation(const fs::path& folder) {
    std::error_code problem;
    if (!fs::is_directory(fs::symlink_status(folder, problem))) return false;
    for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem)) {
        const std::string name = at->path().filename();
        if (is_number(name.substr(0, name.find('.')))) return true;
    }
    return false;
}

}  // namespace

Result<Claim> Claim::take(const std::string& folder) {
    Fd fd(::open(lock_file(folder).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return fail_errno("{}", lock_file(folder));
    struct flock lock = whole_file();
    if (::fcntl(fd.get(), F_OFD_SETLK, &lock) != 0) {
        if (errno != EAGAIN && errno != EACCES) return fail_errno("{} can't be locked", lock_file(folder));
        const auto holder = holder_of(folder);
        return fail_code(ExitCode::refused,
                         "the service runs already: process {} has {}; `cairn service status` tells more",
                         holder ? holder->pid : 0, lock_file(folder));
    }
    const char* sessions = std::getenv("CAIRN_RUNDIR");
    const std::string text = fmt::format("{} {}\n", ::getpid(), sessions == nullptr ? "" : sessions);
    if (::ftruncate(fd.get(), 0) != 0 ||
        ::pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
        return fail_errno("{}", lock_file(folder));
    return Claim(std::move(fd));
}

std::optional<Holder> holder_of(const std::string& folder) {
    const Fd fd(::open(lock_file(folder).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct flock lock = whole_file();
    if (!fd || ::fcntl(fd.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
    std::string text(4200, '\0');
    const ssize_t size = ::pread(fd.get(), text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    Holder holder;
    std::istringstream words(text);
    words >> holder.pid;
    words.get();
    std::getline(words, holder.sessions);
    return holder;
}

Result<> give_up_checkpoints(const std::string& folder) {
    std::vector<fs::path> all;
    std::error_code problem;
    for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
        all.push_back(at->path());
    for (fs::path& path : all) {
        const std::string name = path.filename();
        const bool computation = !name.starts_with('.') && is_computation(path);
        if (computation) {
            const fs::path ended = fs::path(folder) / (ended_prefix + name);
            fs::rename(path, ended, problem);
            if (problem) return fail("{} can't be given up: {}", path.string(), problem.message());
            path = ended;
        }
        const bool leads_to_it =
            (name == "latest" || name == "restart.sh") && fs::is_symlink(fs::symlink_status(path, problem));
        if (!computation && !leads_to_it && !name.starts_with(ended_prefix)) path.clear();
    }
    for (const fs::path& path : all) {
        if (path.empty()) continue;
        fs::remove_all(path, problem);
        if (problem) return fail("{} can't be removed: {}", path.string(), problem.message());
    }
    return {};
}

}  // namespace cairn::service
