#include "coordinator/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>

#include "common/name_lookup.h"
#include "common/socket_names.h"

namespace cairn::coordinator {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> resolve(const Endpoint& endpoint, int flags) {
    look_up_without_plugins();
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int problem = ::getaddrinfo(endpoint.host.empty() ? nullptr : endpoint.host.c_str(),
                                      endpoint.port.c_str(), &hints, &found);
    if (problem != 0)
        return fail_code(ExitCode::usage, "{}:{}: {}", endpoint.host, endpoint.port, ::gai_strerror(problem));
    return Addresses(found, &::freeaddrinfo);
}

std::string words(const sockaddr* name, bool with_port) {
    char text[INET6_ADDRSTRLEN] = "";
    if (name->sa_family == AF_INET) {
        const auto* four = reinterpret_cast<const sockaddr_in*>(name);
        ::inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
        return with_port ? fmt::format("{}:{}", text, ntohs(four->sin_port)) : std::string(text);
    }
    if (name->sa_family != AF_INET6) return "?";
    const auto* six = reinterpret_cast<const sockaddr_in6*>(name);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);
    if (mapped)
        ::inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, text, sizeof text);
    else
        ::inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
    if (!with_port) return text;
    return mapped ? fmt::format("{}:{}", text, ntohs(six->sin6_port))
                  : fmt::format("[{}]:{}", text, ntohs(six->sin6_port));
}

}  // namespace

Result<Endpoint> parse_endpoint(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    Endpoint endpoint;
    if (colon != std::string::npos) {
        endpoint.host = text.substr(0, colon);
        endpoint.port = text.substr(colon + 1);
    }
    if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))
        endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    const bool number = !endpoint.port.empty() && endpoint.port.size() <= 5 &&
                        endpoint.port.find_first_not_of("0123456789") == std::string::npos &&
                        std::stoi(endpoint.port) <= 65535;
    if (!number)
        return fail_code(ExitCode::usage, "'{}': HOST:PORT is needed, for instance 10.0.0.1:7779", text);
    return endpoint;
}

Result<Fd> listen_at(const Endpoint& endpoint, std::string& address) {
    auto found = TRY(resolve(endpoint, AI_PASSIVE));
    Error why{"no address", 0, ExitCode::failed};
    for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
        Fd fd(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!fd) continue;
        const int on = 1, off = 0;
        ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (each->ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (::bind(fd.get(), each->ai_addr, each->ai_addrlen) != 0 || ::listen(fd.get(), 256) != 0) {
            why = fail_errno("{}: listen", words(each->ai_addr, true)).error();
            continue;
        }
        sockaddr_storage own{};
        socklen_t size = sizeof own;
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size);
        address = words(reinterpret_cast<sockaddr*>(&own), true);
        return fd;
    }
    return std::unexpected(std::move(why));
}

Result<Fd> call(const Endpoint& endpoint) {
    auto found = TRY(resolve(endpoint, 0));
    const addrinfo* first = found.get();
    Fd fd(::socket(first->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return fail_errno("socket");
    if (::connect(fd.get(), first->ai_addr, first->ai_addrlen) != 0 && errno != EINPROGRESS)
        return fail_errno("{}", words(first->ai_addr, true));
    return fd;
}

namespace {

std::string peer_of(int fd, bool with_port) {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    return ::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0
               ? words(reinterpret_cast<sockaddr*>(&name), with_port)
               : "?";
}

}  // namespace

std::string peer_words(int fd) {
    return peer_of(fd, true);
}

std::string peer_address(int fd) {
    return peer_of(fd, false);
}

std::string peer_site(int fd) {
    sockaddr_in6 name{};
    socklen_t size = sizeof name;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0 || name.sin6_family != AF_INET6 ||
        IN6_IS_ADDR_V4MAPPED(&name.sin6_addr) || IN6_IS_ADDR_LOOPBACK(&name.sin6_addr))
        return peer_address(fd);
    std::fill(name.sin6_addr.s6_addr + 8, name.sin6_addr.s6_addr + 16, std::uint8_t{0});
    return words(reinterpret_cast<sockaddr*>(&name), false) + "/64";
}

std::string own_words(int fd) {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    return ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0
               ? words(reinterpret_cast<sockaddr*>(&name), false)
               : "?";
}

std::vector<std::string> own_addresses() {
    std::vector<std::string> addresses;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return addresses;
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
        const int family = each->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        if (family == AF_INET6) {
            const auto* six = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
            if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
        }
        addresses.push_back(words(each->ifa_addr, false));
    }
    ::freeifaddrs(all);
    return addresses;
}

std::vector<std::string> known_addresses(const SocketNames& names) {
    std::vector<std::string> addresses;
    const std::uint32_t count = std::min(names.moved.load(), moved_host_count);
    for (const std::string& own : own_addresses()) {
        std::array<std::uint8_t, 16> bytes{};
        const int family = own.find(':') == std::string::npos ? AF_INET : AF_INET6;
        const std::uint32_t size = family == AF_INET ? 4 : 16;
        if (::inet_pton(family, own.c_str(), bytes.data()) != 1) continue;
        bool known = false;
        for (std::uint32_t n = 0; n < count; ++n) {
            const MovedHost& host = names.hosts[n];
            if (host.family.load() != static_cast<std::uint32_t>(family) ||
                !same_address(host.now, bytes.data(), size))
                continue;
            char text[INET6_ADDRSTRLEN] = "";
            ::inet_ntop(family, host.known, text, sizeof text);
            addresses.emplace_back(text);
            known = true;
        }
        // By this one they know a host that is elsewhere now.
        const bool others =
            find_moved_host(names, static_cast<std::uint32_t>(family), bytes.data(), size) != nullptr;
        if (!known && !others) addresses.push_back(own);
    }
    return addresses;
}

}  // namespace cairn::coordinator
