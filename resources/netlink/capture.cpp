// Netlink sockets: protocol, port, groups. What waits in them is news of the kernel's, and old by the time of
// a restart; or an answer, which nobody could give again: it is waited for until it has been read.
#include "resources/socket/capture.h"

#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "resources/capture/table.h"
#include "resources/file/schema_identity.h"
#include "resources/namespace/capture_own.h"

namespace cairn::capture {
namespace {

// The next message is one that was asked for by this socket. (With an error waiting, which a look would take
// away, it has lost news.)
bool answer_is_first(int fd, const std::string& own_name) {
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, 0) != 1 || (polled.revents & (POLLIN | POLLERR)) != POLLIN) return false;
    nlmsghdr first{};
    sockaddr_nl own{};
    std::memcpy(&own, own_name.data(), std::min(own_name.size(), sizeof own));
    const ssize_t got = ::recv(fd, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
    return got == sizeof first && own.nl_pid != 0 && first.nlmsg_pid == own.nl_pid;
}

// The kernel answers within send(2): what isn't there by then is the rest of a long answer (a dump), which it
// makes as it is read. Both are told by /proc/net/netlink, by the socket's inode, which is the last column.
// Where news may wait, they don't hold up a checkpoint: nobody may be reading them.
bool answer_is_due(const Description& found, const std::string& own_name, bool gets_news) {
    std::ifstream file("/proc/net/netlink");
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string socket, groups;
        int protocol = 0, waiting = 0, sent = 0, dump = 0, users = 0, dropped = 0;
        std::uint32_t port = 0;
        ino_t number = 0;
        words >> socket >> protocol >> port >> groups >> waiting >> sent >> dump >> users >> dropped >>
            number;
        if (words && number == found.status.st_ino)
            return dump != 0 || (waiting != 0 && (!gets_news || answer_is_first(found.fd(), own_name)));
    }
    return false;
}

}  // namespace

bool is_netlink_socket(const Looked& it) {
    return it.domain == AF_NETLINK;
}

Result<> describe_netlink_socket(Table& table, const Description& found, schema::Object& object) {
    const int fd = found.fd(), protocol = socket_option<int>(fd, SOL_SOCKET, SO_PROTOCOL);
    // Others hold rules or tables for their program in the kernel.
    constexpr std::array known = {NETLINK_ROUTE, NETLINK_USERSOCK, NETLINK_SOCK_DIAG, NETLINK_KOBJECT_UEVENT,
                                  NETLINK_GENERIC};
    if (std::ranges::find(known, protocol) == known.end())
        return fail_code(ExitCode::refused, "is a netlink socket of protocol {}: this can't be saved",
                         protocol);
    object.identity = identity_of(found.status);
    const std::string own = own_address(fd), peer = peer_address(fd);
    std::array<std::uint32_t, 64> groups{};
    socklen_t length = sizeof groups;  // of the kernel: bytes that there are, which may be more
    if (::getsockopt(fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, groups.data(), &length) != 0) length = 0;
    const bool gets_news = std::ranges::any_of(groups, [](std::uint32_t bits) { return bits != 0; });
    bool is_due = false;
    CHECK_OK(in_own_space(table, object.network, [&] {
        is_due = table.options.may_wait && answer_is_due(found, own, gets_news);
        return Result<>();
    }));
    if (is_due) {
        auto due = fail_code(ExitCode::refused, "is a netlink socket with an answer that is being read");
        due.error().passing = true;
        return due;
    }
    const auto* bits = reinterpret_cast<const std::uint8_t*>(groups.data());
    object.what = schema::Netlink{.style = socket_option<int>(fd, SOL_SOCKET, SO_TYPE),
                                  .protocol = protocol,
                                  .own = schema::to_bytes(own),
                                  .peer_name = schema::to_bytes(peer),
                                  .groups = {bits, bits + std::min<std::size_t>(length, sizeof groups)},
                                  .options = socket_options_of(fd)};
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0)
        table.note("{} is a netlink socket with something waiting: it is left out", found.who());
    return {};
}

}  // namespace cairn::capture
