#include "cli/service/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "common/fd.h"

namespace cairn::service {

Notify::Notify() {
    if (const char* named = std::getenv("NOTIFY_SOCKET"); named != nullptr) socket_ = named;
    ::unsetenv("NOTIFY_SOCKET");
}

void Notify::tell(const std::string& lines) const {
    sockaddr_un address{};
    if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket_.data(), socket_.size());
    // An abstract name, which systemd writes with '@'.
    if (socket_[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
    const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // It may have to wait: READY=1 has to arrive, or systemd waits for it.
    if (fd)
        static_cast<void>(::sendto(fd.get(), lines.data(), lines.size(), MSG_NOSIGNAL,
                                   reinterpret_cast<const sockaddr*>(&address), size));
}

}  // namespace cairn::service
