#include "common/session.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace cairn {
namespace {

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

std::string absolute(std::string path) {
    if (!path.starts_with('/')) {
        char here[4096];
        if (::getcwd(here, sizeof here) != nullptr) path = std::string(here) + "/" + path;
    }
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
}

bool owned_directory(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

bool is_anothers(const std::string& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0 && (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid());
}

// "" if `path` is missing or a folder that may be used.
std::string folder_problem(const std::string& path, bool root_may_look) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0)
        return errno == ENOENT ? std::string() : path + ": " + std::strerror(errno);
    if (!S_ISDIR(info.st_mode))
        return path + " is no folder, so no session can live there; remove it or set CAIRN_RUNDIR";
    if (info.st_uid != ::geteuid() && !(root_may_look && ::geteuid() == 0))
        return path + " belongs to user " + std::to_string(info.st_uid) + ", not to you (" +
               std::to_string(::geteuid()) + "); set CAIRN_RUNDIR to a folder of your own";
    if ((info.st_mode & 022) != 0)
        return path + " can be written by others; chmod go-w it or set CAIRN_RUNDIR to another folder";
    return {};
}

std::string make_folder(const std::string& path) {
    // The umask may take bits away from 0700 that we need ourselves.
    if (::mkdir(path.c_str(), 0700) == 0)
        ::chmod(path.c_str(), 0700);
    else if (errno != EEXIST)
        return path + ": can't be made: " + std::strerror(errno);
    return folder_problem(path, false);
}

SessionResult<Session> paths_of(std::string_view name) {
    Session session;
    session.name = std::string(name);
    if (std::string problem = session_name_problem(name); !problem.empty()) return std::unexpected(problem);
    session.directory = run_directory() + "/" + session.name;
    return session;
}

}  // namespace

std::string session_name_problem(std::string_view name) {
    if (name.empty()) return "a session's name can't be empty";
    if (name.size() > 63) return "a session's name has at most 63 characters";
    if (name.front() == '.' || name.front() == '-')
        return "a session's name can't begin with '" + std::string(1, name.front()) + "'";
    for (const char c : name) {
        const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          c == '.' || c == '_' || c == '-';
        if (!fine) return "a session's name has letters, digits, '.', '_' and '-' only: " + std::string(name);
    }
    return {};
}

std::string session_name(std::string_view given) {
    if (!given.empty()) return std::string(given);
    if (std::string set = environment("CAIRN_SESSION"); !set.empty()) return set;
    return std::string(default_session);
}

std::string run_directory() {
    if (std::string set = environment("CAIRN_RUNDIR"); !set.empty()) return absolute(std::move(set));
    std::string usual = "/tmp/cairn-" + std::to_string(::geteuid());
    std::string runtime = environment("XDG_RUNTIME_DIR");
    // Somebody else has made ours before us: his it stays, we go where he can't.
    if (is_anothers(usual) && !runtime.empty() && owned_directory(runtime))
        return absolute(std::move(runtime)) + "/cairn";
    return usual;
}

SessionResult<Session> find_session(std::string_view name) {
    auto session = paths_of(name);
    if (!session) return session;
    // In a usual place another user may have made a folder for root to step into: his is meant only where
    // it is named.
    const bool named = !environment("CAIRN_RUNDIR").empty();
    for (const std::string& path : {run_directory(), session->directory})
        if (std::string problem = folder_problem(path, named); !problem.empty())
            return std::unexpected(problem);
    return session;
}

SessionResult<Session> make_session(std::string_view name) {
    auto session = paths_of(name);
    if (!session) return session;
    if (std::string problem = make_folder(run_directory()); !problem.empty()) return std::unexpected(problem);
    if (std::string problem = make_folder(session->directory); !problem.empty())
        return std::unexpected(problem);
    if (::chmod(session->directory.c_str(), 0700) != 0)
        return std::unexpected(session->directory + ": chmod 0700: " + std::strerror(errno));
    return session;
}

std::vector<std::string> known_sessions() {
    std::vector<std::string> names;
    DIR* folder = ::opendir(run_directory().c_str());
    if (folder == nullptr) return names;
    while (const dirent* entry = ::readdir(folder))
        if (session_name_problem(entry->d_name).empty()) names.emplace_back(entry->d_name);
    ::closedir(folder);
    std::sort(names.begin(), names.end());
    return names;
}

int connect_session(const Session& session) {
    // sun_path holds 107 bytes; a longer folder is reached through a descriptor of it.
    const int folder = ::open(session.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0) return -errno;
    struct stat info {};
    if (::fstat(folder, &info) != 0) info.st_uid = static_cast<uid_t>(-1);
    const std::string path = "/proc/self/fd/" + std::to_string(folder) + "/socket";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);

    int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        const int number = errno;
        if (fd >= 0) ::close(fd);
        fd = -number;
    }
    ::close(folder);
    if (fd < 0) return fd;
    // The kernel's word on who listens there, before anything is said to him or believed of him.
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == info.st_uid) return fd;
    ::close(fd);
    return -EPERM;
}

std::string connection_problem(const Session& session, int number) {
    const std::string socket = session.socket() + ": ";
    if (number != -EPERM) return socket + std::strerror(-number);
    return socket +
           "who listens there is not the user whose session it is, and isn't believed; remove the socket, or "
           "take another --session";
}

}  // namespace cairn
