// What the captures of all kinds of sockets share: options, addresses, and looking at what is waiting in
// them.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/region.h"
#include "resources/socket/schema.h"

namespace cairn::capture {

template <class T>
[[nodiscard]] T socket_option(int fd, int level, int name) {
    T value{};
    socklen_t length = sizeof value;
    ::getsockopt(fd, level, name, &value, &length);
    return value;
}

// Everything that the socket has of them.
[[nodiscard]] schema::SocketOptions socket_options_of(int fd);

// sockaddr as getsockname(2) and getpeername(2) give it; "" if the call fails (no peer).
[[nodiscard]] std::string own_address(int fd);
[[nodiscard]] std::string peer_address(int fd);
// "127.0.0.1:80", "[::1]:80", "/run/socket", "@abstract", "unnamed".
[[nodiscard]] std::string address_words(const std::string& address);

// Comparable over hosts: the same address in IPv4 and as IPv4 in IPv6 (::ffff:1.2.3.4) is one. Interface and
// flow don't tell ends apart.
[[nodiscard]] std::string plain_address(const std::string& address);
// As programs know this host, where a restart has found it elsewhere (Region::sockets; null: nobody has
// moved).
[[nodiscard]] std::string as_known(const Region* region, const std::string& address);
// Where a socket that is bound to this can be called from other hosts, plain: one bound to any address by all
// that this host has but loopback's.
[[nodiscard]] std::vector<std::string> reachable_at(int fd, const std::string& address);

// One message that waits in a socket, or a stretch of a stream.
struct Waiting {
    schema::Bytes data;
    std::string from;             // sockaddr of its sender, "" if it had none
    std::vector<Fd> rights;       // descriptors on their way: duplicates, ours
    std::optional<ucred> sender;  // Unix: who had sent it; none where the kernel didn't note it
};

// Looks at everything that waits in a socket, and takes nothing. A stream comes in stretches that begin where
// descriptors or another sender's credentials do. SO_PEEK_OFF (Unix: Linux 3.4, UDP: 4.7) and on Unix sockets
// SO_PASSCRED are set for the moment if something waits.
// An empty datagram that had been looked at by an earlier checkpoint and stands behind another message isn't
// seen: the kernel takes it for seen (skb->peeked).
[[nodiscard]] Result<std::vector<Waiting>> look_into(int fd, int domain, bool stream);

}  // namespace cairn::capture
