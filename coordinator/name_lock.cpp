#include "coordinator/name_lock.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cairn::coordinator {
namespace {

// A folder's path may be longer than a name: FNV-1a, 64 bits.
std::uint64_t hash_of(const std::string& text) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
}

}  // namespace

Result<NameLock> take_name(const Session& session) {
    const std::string name = fmt::format("cairn-session-{}-{:016x}", ::geteuid(), hash_of(session.directory));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(&address.sun_path[1], name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const auto* where = reinterpret_cast<const sockaddr*>(&address);

    NameLock lock;
    lock.held.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!lock.held) return fail_errno("socket");
    if (::bind(lock.held.get(), where, length) == 0) {
        if (::listen(lock.held.get(), 64) != 0) return fail_errno("@{}: listen", name);
        return lock;
    }
    if (errno != EADDRINUSE) return fail_errno("@{}: bind", name);
    lock.held.reset();
    const Fd asking(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ucred who{};
    socklen_t size = sizeof who;
    // One between its bind and its listen, or gone by now, refuses: the caller comes again.
    if (!asking || ::connect(asking.get(), where, length) != 0) {
        lock.other = -1;
        return lock;
    }
    if (::getsockopt(asking.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::geteuid())
        lock.other = who.pid;
    return lock;
}

}  // namespace cairn::coordinator
