// Internet addresses as sockaddr.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/region.h"
#include "common/schema/field.h"

namespace cairn::restart {

class Address {
  public:
    Address() = default;
    explicit Address(std::string sockaddr) : bytes_(std::move(sockaddr)) {}
    explicit Address(const schema::Bytes& saved) : bytes_(saved.begin(), saved.end()) {}
    [[nodiscard]] static Address of(int fd);       // getsockname(2)
    [[nodiscard]] static Address peer_of(int fd);  // getpeername(2)
    [[nodiscard]] static Address loopback(int domain);
    // Of an address in numbers, IPv4 or IPv6; empty if it is none.
    [[nodiscard]] static Address parse(const std::string& text, std::uint16_t port);
    [[nodiscard]] Address any() const;  // 0.0.0.0 or ::, with the same port

    [[nodiscard]] bool empty() const { return bytes_.empty(); }
    [[nodiscard]] const sockaddr* name() const { return reinterpret_cast<const sockaddr*>(bytes_.data()); }
    [[nodiscard]] socklen_t length() const { return static_cast<socklen_t>(bytes_.size()); }
    [[nodiscard]] int domain() const;
    [[nodiscard]] std::uint16_t port() const;
    // 4 or 16 bytes in network order.
    [[nodiscard]] std::pair<std::array<std::uint8_t, 16>, std::uint32_t> host_bytes() const;
    [[nodiscard]] bool is_any() const;  // 0.0.0.0, ::
    [[nodiscard]] bool is_loopback() const;
    [[nodiscard]] bool is_multicast() const;
    [[nodiscard]] Address with_port(std::uint16_t port) const;
    // IPv4 as IPv4 in IPv6 (::ffff:1.2.3.4) and back, where the domain wants it.
    [[nodiscard]] Address in_domain(int domain) const;
    [[nodiscard]] bool same(const Address& other) const;
    // Where the host of this address is now, with the same port; empty: it has not moved.
    [[nodiscard]] Address moved(const SocketNames& names) const;
    [[nodiscard]] bool is_here() const;  // may be bound to
    [[nodiscard]] std::string words() const;
    [[nodiscard]] std::string host_words() const;  // without the port, as parse() takes it

  private:
    std::string bytes_;
};

// /proc/sys/net/ipv4/ip_local_port_range, which IPv6 has as well.
struct Ports {
    std::uint16_t first = 32768, last = 60999;
    [[nodiscard]] bool contains(std::uint16_t port) const { return first <= port && port <= last; }
};
[[nodiscard]] Ports ephemeral_ports();

// For a TCP socket that is going to call: bind(2) finds a port taken as long as the killed program's end of
// it is in TIME_WAIT, or finishing; connect(2), left to choose from a range of one (IP_LOCAL_PORT_RANGE,
// since Linux 6.3), asks whether this very connection is. False, and errno: it can't have the address.
[[nodiscard]] bool take_for_call(int fd, const Address& own);

// It calls from any port of the same address then. Not if the port is none that the kernel would choose by
// itself.
void call_from_any_port(int fd);

// " by 123 (nginx)": who else listens at this port (of UDP and UDP-Lite: is bound to it), as far as we may
// know. "" if unknown.
[[nodiscard]] std::string holder_of_port(const Address& address, int protocol = IPPROTO_TCP);

// That a listener can't have its port; `holder` is holder_of_port()'s.
[[nodiscard]] std::unexpected<Error> refuse_taken_port(const Address& address, std::string_view holder);

}  // namespace cairn::restart
