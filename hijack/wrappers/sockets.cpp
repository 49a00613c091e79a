// Names of sockets. A restart on hosts with other addresses has given connections new ones; programs are told
// those that they know (common/socket_names.h), and who calls a host that has moved gets there.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "hijack/moved.h"
#include "hijack/next.h"
#include "hijack/raw.h"

using namespace cairn;
using namespace cairn::hijack;

namespace {

std::uint64_t cookie_of(int fd) {
    std::uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return raw::failed(raw::call(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE, &cookie, &size)) ? 0 : cookie;
}

bool is_stream(int fd) {
    int style = 0;
    socklen_t size = sizeof style;
    return !raw::failed(raw::call(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &style, &size)) &&
           style == SOCK_STREAM;
}

// As the kernel does it: what fits is written, the whole length is told.
void tell(const std::uint8_t* name, std::uint8_t length, struct sockaddr* address, socklen_t room,
          socklen_t* size) {
    std::memcpy(address, name, length < room ? length : room);
    *size = length;
}

template <class Call>
int named(int fd, struct sockaddr* address, socklen_t* size, bool peer, Call call) {
    Region* shared = region();
    if (shared == nullptr || (shared->sockets.used.load(std::memory_order_relaxed) == 0 &&
                              shared->sockets.moved.load(std::memory_order_relaxed) == 0))
        return call(fd, address, size);
    const socklen_t room = size != nullptr ? *size : 0;
    const int result = call(fd, address, size);
    if (result != 0) return result;
    const SocketName* name = find_socket_name(shared->sockets, cookie_of(fd));
    const std::uint8_t length = name == nullptr ? 0 : peer ? name->peer_length : name->own_length;
    if (length != 0)
        tell(peer ? name->peer : name->own, length, address, room, size);
    else
        tell_known(address, room, *size);
    return result;
}

// Who has called is called what the others call him.
template <class Call>
int accepted(struct sockaddr* address, socklen_t* size, Call call) {
    const socklen_t room = size != nullptr ? *size : 0;
    const int result = call();
    if (result >= 0 && address != nullptr && size != nullptr) tell_known(address, room, *size);
    return result;
}

}  // namespace

CAIRN_EXPORT int getsockname(int fd, struct sockaddr* address, socklen_t* size) noexcept {
    return named(fd, address, size, false, next<"getsockname">(&::getsockname));
}

CAIRN_EXPORT int getpeername(int fd, struct sockaddr* address, socklen_t* size) noexcept {
    return named(fd, address, size, true, next<"getpeername">(&::getpeername));
}

CAIRN_EXPORT int accept(int fd, struct sockaddr* address, socklen_t* size) {
    return accepted(address, size, [=] { return next<"accept">(&::accept)(fd, address, size); });
}

CAIRN_EXPORT int accept4(int fd, struct sockaddr* address, socklen_t* size, int flags) {
    return accepted(address, size, [=] { return next<"accept4">(&::accept4)(fd, address, size, flags); });
}

CAIRN_EXPORT int connect(int fd, const struct sockaddr* address, socklen_t size) {
    const MovedAddress now(address, size);
    if (!now.moved()) return next<"connect">(&::connect)(fd, address, size);
    const int result = next<"connect">(&::connect)(fd, now.get(), size);
    const int problem = errno;
    // Its peer is called what the program calls it. A socket of datagrams may be connected again, to others.
    if ((result == 0 || problem == EINPROGRESS) && is_stream(fd)) {
        Region* shared = region();
        const std::uint64_t cookie = cookie_of(fd);
        if (find_socket_name(shared->sockets, cookie) == nullptr)
            add_socket_name(shared->sockets, cookie, nullptr, 0, address, size);
    }
    errno = problem;
    return result;
}

// An address of this host's own that it has no more: the one that it has instead. What it has it gets.
CAIRN_EXPORT int bind(int fd, const struct sockaddr* address, socklen_t size) noexcept {
    const int result = next<"bind">(&::bind)(fd, address, size);
    if (result == 0 || errno != EADDRNOTAVAIL) return result;
    const MovedAddress now(address, size);
    if (!now.moved()) {
        errno = EADDRNOTAVAIL;
        return result;
    }
    return next<"bind">(&::bind)(fd, now.get(), size);
}
