// Names of sockets. A restart on hosts with other addresses has given connections new ones; programs are told
// those that they know (common/socket_names.h), and who calls a host that has moved gets there.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "common/socket_names.h"
#include "hijack/next.h"
#include "hijack/raw.h"
#include "hijack/resident.h"

using namespace cairn;
using namespace cairn::hijack;

namespace {

std::uint64_t cookie_of(int fd) {
    std::uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return raw::failed(raw::call(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE, &cookie, &size)) ? 0 : cookie;
}

// As the kernel does it: what fits is written, the whole length is told.
void tell(const std::uint8_t* name, std::uint8_t length, struct sockaddr* address, socklen_t room,
          socklen_t* size) {
    if (length == 0) return;
    std::memcpy(address, name, length < room ? length : room);
    *size = length;
}

using NameCall = int(int, struct sockaddr*, socklen_t*) noexcept;

template <class Call>
int named(int fd, struct sockaddr* address, socklen_t* size, bool peer, Call call) {
    Region* shared = region();
    if (shared == nullptr || shared->sockets.used.load(std::memory_order_relaxed) == 0)
        return call(fd, address, size);
    const socklen_t room = size != nullptr ? *size : 0;
    const int result = call(fd, address, size);
    if (result != 0) return result;
    const SocketName* name = find_socket_name(shared->sockets, cookie_of(fd));
    if (name == nullptr) return result;
    tell(peer ? name->peer : name->own, peer ? name->peer_length : name->own_length, address, room, size);
    return result;
}

struct Target {
    std::uint32_t family = 0, size = 0;
    std::uint8_t* bytes = nullptr;
};

// Where the address of the host is in a sockaddr; IPv4 in IPv6 counts as IPv4.
Target target_of(sockaddr_storage& storage, socklen_t size) {
    if (storage.ss_family == AF_INET && size >= sizeof(sockaddr_in))
        return {AF_INET, 4,
                reinterpret_cast<std::uint8_t*>(&reinterpret_cast<sockaddr_in*>(&storage)->sin_addr)};
    if (storage.ss_family != AF_INET6 || size < sizeof(sockaddr_in6)) return {};
    auto* six = &reinterpret_cast<sockaddr_in6*>(&storage)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(six)) return {AF_INET, 4, six->s6_addr + 12};
    return {AF_INET6, 16, six->s6_addr};
}

}  // namespace

CAIRN_EXPORT int getsockname(int fd, struct sockaddr* address, socklen_t* size) noexcept {
    return named(fd, address, size, false, next<"getsockname">(&::getsockname));
}

CAIRN_EXPORT int getpeername(int fd, struct sockaddr* address, socklen_t* size) noexcept {
    return named(fd, address, size, true, next<"getpeername">(&::getpeername));
}

CAIRN_EXPORT int connect(int fd, const struct sockaddr* address, socklen_t size) {
    Region* shared = region();
    if (shared == nullptr || shared->sockets.moved.load(std::memory_order_relaxed) == 0 ||
        address == nullptr || size > sizeof(sockaddr_storage))
        return next<"connect">(&::connect)(fd, address, size);
    sockaddr_storage storage;
    std::memset(&storage, 0, sizeof storage);
    std::memcpy(&storage, address, size);
    const Target target = target_of(storage, size);
    const MovedHost* moved = target.bytes == nullptr
                                 ? nullptr
                                 : find_moved_host(shared->sockets, target.family, target.bytes, target.size);
    if (moved == nullptr) return next<"connect">(&::connect)(fd, address, size);
    std::memcpy(target.bytes, moved->now, target.size);
    const int result = next<"connect">(&::connect)(fd, reinterpret_cast<const sockaddr*>(&storage), size);
    const int problem = errno;
    // Its peer is called what the program calls it.
    if (result == 0 || problem == EINPROGRESS) {
        const std::uint64_t cookie = cookie_of(fd);
        if (find_socket_name(shared->sockets, cookie) == nullptr)
            add_socket_name(shared->sockets, cookie, nullptr, 0, address, size);
    }
    errno = problem;
    return result;
}
