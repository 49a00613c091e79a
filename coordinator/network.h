// Addresses and sockets between hosts.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/region.h"

namespace cairn::coordinator {

// "HOST:PORT", "[ADDRESS]:PORT"; an empty host is every address of this one.
struct Endpoint {
    std::string host, port;
};
[[nodiscard]] Result<Endpoint> parse_endpoint(const std::string& text);

// A socket that listens there; `address` is where, in words. Blocks for the resolver.
[[nodiscard]] Result<Fd> listen_at(const Endpoint& endpoint, std::string& address);
// A socket that is being connected. Blocks for the resolver, not for the other host.
[[nodiscard]] Result<Fd> call(const Endpoint& endpoint);

[[nodiscard]] std::string peer_words(int fd);    // "10.0.0.1:4711"
[[nodiscard]] std::string peer_address(int fd);  // "10.0.0.1"
// The machine at the other end, as far as an address can tell: an IPv4 address, or an IPv6 network of /64.
[[nodiscard]] std::string peer_site(int fd);
[[nodiscard]] std::string own_words(int fd);  // "10.0.0.1"

// This host's addresses that others may know it by: not loopback, not link-local.
[[nodiscard]] std::vector<std::string> own_addresses();
// The same as programs know them that a restart has brought here from hosts with other addresses.
[[nodiscard]] std::vector<std::string> known_addresses(const SocketNames& names);

}  // namespace cairn::coordinator
