#include "resources/unix_socket/restore_names.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "common/open_exactly.h"
#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

constexpr std::size_t path_at = offsetof(sockaddr_un, sun_path);

// Relative paths begin where the process was: the tool goes there for the moment.
class InFolder {
  public:
    explicit InFolder(const std::string& folder) {
        if (folder.empty()) return;
        const Fd there = open_exactly(AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (!there) return;
        before_.reset(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (::fchdir(there.get()) != 0) before_.reset();
    }
    InFolder(const InFolder&) = delete;
    InFolder& operator=(const InFolder&) = delete;
    ~InFolder() {
        if (before_) (void)!::fchdir(before_.get());
    }

  private:
    Fd before_;
};

const sockaddr* pointer(const UnixName& name) {
    return reinterpret_cast<const sockaddr*>(name.address.data());
}
socklen_t length(const UnixName& name) {
    return static_cast<socklen_t>(name.address.size());
}

// A socket file without a living socket answers nobody.
bool in_use(const UnixName& name) {
    for (const int style : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
        const Fd caller(::socket(AF_UNIX, style | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (::connect(caller.get(), pointer(name), length(name)) == 0 || errno == EAGAIN) return true;
        if (errno != EPROTOTYPE) return false;
    }
    return true;
}

std::unexpected<Error> somebody_elses(const std::string& name) {
    return fail_code(
        ExitCode::refused,
        "the Unix socket {} is somebody else's now: end who has it (`ss -xlp` tells), or give it "
        "another place by --path-map OLD=NEW",
        name);
}

}  // namespace

bool UnixName::is_path() const {
    return address.size() > path_at && address[path_at] != 0;
}

std::string UnixName::path() const {
    const std::string own = address.substr(path_at).c_str();
    return folder.empty() ? own : folder + "/" + own;
}

std::string UnixName::words() const {
    if (is_path()) return path();
    return address.size() > path_at ? "@" + address.substr(path_at + 1) : "unnamed";
}

UnixName unix_name(const schema::Bytes& address, const std::string& folder, std::int64_t network,
                   const ObjectSetOptions& options) {
    UnixName name;
    name.address = schema::to_string(address);
    if (name.address.size() <= path_at) return {};
    if (!name.is_path()) {
        name.network = network;
        return name;
    }
    const std::string own = name.address.substr(path_at).c_str();
    if (own.front() != '/') {
        name.folder = mapped_path(folder, options);
        return name;
    }
    const std::string mapped = mapped_path(own, options);
    if (mapped != own && mapped.size() < sizeof(sockaddr_un::sun_path))
        name.address = name.address.substr(0, path_at) + mapped + '\0';
    return name;
}

Result<> bind_unix(int fd, const UnixName& name) {
    const InFolder there(name.folder);
    if (::bind(fd, pointer(name), length(name)) == 0) return {};
    if (errno == EADDRINUSE && name.is_path()) {
        const std::string own = name.address.substr(path_at).c_str();
        struct stat status {};
        if (::lstat(own.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) && !in_use(name)) {
            ::unlink(own.c_str());
            if (::bind(fd, pointer(name), length(name)) == 0) return {};
        }
    }
    if (errno == EADDRINUSE) return somebody_elses(name.words());
    return fail_errno("Unix socket {}: bind", name.words());
}

int connect_unix(int fd, const UnixName& name) {
    const InFolder there(name.folder);
    return ::connect(fd, pointer(name), length(name));
}

ssize_t send_unix(int fd, const msghdr& message, const UnixName& to) {
    const InFolder there(to.folder);
    msghdr addressed = message;
    if (!to.empty()) {
        addressed.msg_name = const_cast<char*>(to.address.data());
        addressed.msg_namelen = length(to);
    }
    return ::sendmsg(fd, &addressed, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void unlink_unix(const UnixName& name) {
    const std::string path = name.is_path() ? name.path() : "";
    struct stat status {};
    if (!path.empty() && ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode))
        ::unlink(path.c_str());
}

void dress_unix(const UnixName& name, const std::optional<schema::UnixFile>& saved) {
    if (!name.is_path()) return;
    if (!saved) return unlink_unix(name);
    const Fd file(::open(name.path().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
    // Only root may give it away; whoever can't has kept what it is.
    (void)!::fchownat(file.get(), "", saved->uid, saved->gid, AT_EMPTY_PATH);
    (void)!::chmod(fd_path(file.get()).c_str(), saved->mode);
}

Result<> move_unix(const UnixName& name, const std::string& to) {
    struct stat status {};
    if (::lstat(to.c_str(), &status) == 0) {
        sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
        if (to.size() >= sizeof address.sun_path || !S_ISSOCK(status.st_mode)) return somebody_elses(to);
        std::memcpy(address.sun_path, to.c_str(), to.size());
        UnixName there;
        there.address.assign(reinterpret_cast<const char*>(&address), path_at + to.size() + 1);
        if (in_use(there)) return somebody_elses(to);
    }
    if (::rename(name.path().c_str(), to.c_str()) != 0)
        return fail_errno("Unix socket {}: can't be moved to {}", name.words(), to);
    return {};
}

}  // namespace cairn::restart
