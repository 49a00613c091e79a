#include "resources/socket/restore_addresses.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "common/fd.h"
#include "common/socket_names.h"
#include "resources/socket/schema.h"

namespace cairn::restart {
namespace {

template <class T>
std::string bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
T read_as(const std::string& bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    return value;
}

using Ask = int (*)(int, sockaddr*, socklen_t*);
Address ask(int fd, Ask call) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    if (call(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
    return Address(bytes_of(storage).substr(0, length));
}

// Sockets that this process has itself: "socket:[INODE]".
std::set<std::string> own_sockets() {
    std::set<std::string> own;
    DIR* descriptors = ::opendir("/proc/self/fd");
    if (descriptors == nullptr) return own;
    while (const dirent* each = ::readdir(descriptors)) {
        char target[64] = "";
        if (::readlinkat(::dirfd(descriptors), each->d_name, target, sizeof target - 1) > 0)
            own.insert(target);
    }
    ::closedir(descriptors);
    return own;
}

// Who has a descriptor of socket INODE, among the processes that we may look at.
std::string holder_of_inode(const std::string& inode) {
    const std::string wanted = fmt::format("socket:[{}]", inode);
    DIR* all = ::opendir("/proc");
    if (all == nullptr) return {};
    std::string found;
    while (const dirent* process = found.empty() ? ::readdir(all) : nullptr) {
        if (process->d_name[0] < '1' || process->d_name[0] > '9') continue;
        const std::string folder = fmt::format("/proc/{}/fd", process->d_name);
        DIR* descriptors = ::opendir(folder.c_str());
        if (descriptors == nullptr) continue;
        while (const dirent* each = ::readdir(descriptors)) {
            char target[64] = "";
            const std::string path = folder + "/" + each->d_name;
            const ssize_t length = ::readlink(path.c_str(), target, sizeof target - 1);
            if (length <= 0 || wanted != target) continue;
            std::string name;
            std::getline(std::ifstream(fmt::format("/proc/{}/comm", process->d_name)), name);
            found = fmt::format(" by {} ({})", process->d_name, name);
            break;
        }
        ::closedir(descriptors);
    }
    ::closedir(all);
    return found;
}

}  // namespace

Address Address::of(int fd) {
    return ask(fd, [](int socket, sockaddr* name, socklen_t* length) {
        return ::getsockname(socket, name, length);
    });
}
Address Address::peer_of(int fd) {
    return ask(fd, [](int socket, sockaddr* name, socklen_t* length) {
        return ::getpeername(socket, name, length);
    });
}

Address Address::loopback(int domain) {
    if (domain == AF_INET6) {
        sockaddr_in6 name{};
        name.sin6_family = AF_INET6;
        name.sin6_addr = in6addr_loopback;
        return Address(bytes_of(name));
    }
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return Address(bytes_of(name));
}

Address Address::parse(const std::string& text, std::uint16_t port) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) return Address(bytes_of(four));
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    if (::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) return Address(bytes_of(six));
    return {};
}

Address Address::any() const {
    if (domain() == AF_INET) {
        auto name = read_as<sockaddr_in>(bytes_);
        name.sin_addr.s_addr = 0;
        return Address(bytes_of(name));
    }
    auto name = read_as<sockaddr_in6>(bytes_);
    name.sin6_addr = in6addr_any;
    return Address(bytes_of(name));
}

int Address::domain() const {
    return empty() ? AF_UNSPEC : name()->sa_family;
}

std::uint16_t Address::port() const {
    if (domain() == AF_INET) return ntohs(read_as<sockaddr_in>(bytes_).sin_port);
    if (domain() == AF_INET6) return ntohs(read_as<sockaddr_in6>(bytes_).sin6_port);
    return 0;
}

std::pair<std::array<std::uint8_t, 16>, std::uint32_t> Address::host_bytes() const {
    std::array<std::uint8_t, 16> bytes{};
    if (domain() == AF_INET) {
        const auto name = read_as<sockaddr_in>(bytes_);
        std::memcpy(bytes.data(), &name.sin_addr, 4);
        return {bytes, 4};
    }
    const auto name = read_as<sockaddr_in6>(bytes_);
    std::memcpy(bytes.data(), &name.sin6_addr, 16);
    return {bytes, 16};
}

bool Address::is_any() const {
    if (domain() == AF_INET) return read_as<sockaddr_in>(bytes_).sin_addr.s_addr == 0;
    const auto name = read_as<sockaddr_in6>(bytes_);
    return IN6_IS_ADDR_UNSPECIFIED(&name.sin6_addr);
}

bool Address::is_loopback() const {
    const Address plain = in_domain(AF_INET);
    if (plain.domain() == AF_INET)
        return ntohl(read_as<sockaddr_in>(plain.bytes_).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    const auto name = read_as<sockaddr_in6>(bytes_);
    return IN6_IS_ADDR_LOOPBACK(&name.sin6_addr);
}

bool Address::is_multicast() const {
    if (domain() == AF_INET) return IN_MULTICAST(ntohl(read_as<sockaddr_in>(bytes_).sin_addr.s_addr));
    const auto name = read_as<sockaddr_in6>(bytes_);
    return IN6_IS_ADDR_MULTICAST(&name.sin6_addr);
}

Address Address::with_port(std::uint16_t port) const {
    if (domain() == AF_INET) {
        auto name = read_as<sockaddr_in>(bytes_);
        name.sin_port = htons(port);
        return Address(bytes_of(name));
    }
    auto name = read_as<sockaddr_in6>(bytes_);
    name.sin6_port = htons(port);
    return Address(bytes_of(name));
}

Address Address::in_domain(int wanted) const {
    if (empty() || wanted == domain()) return *this;
    if (wanted == AF_INET6) {
        const auto old = read_as<sockaddr_in>(bytes_);
        sockaddr_in6 name{};
        name.sin6_family = AF_INET6;
        name.sin6_port = old.sin_port;
        name.sin6_addr.s6_addr[10] = name.sin6_addr.s6_addr[11] = 0xff;
        std::memcpy(name.sin6_addr.s6_addr + 12, &old.sin_addr, 4);
        return Address(bytes_of(name));
    }
    const auto old = read_as<sockaddr_in6>(bytes_);
    if (!IN6_IS_ADDR_V4MAPPED(&old.sin6_addr)) return *this;
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = old.sin6_port;
    std::memcpy(&name.sin_addr, old.sin6_addr.s6_addr + 12, 4);
    return Address(bytes_of(name));
}

bool Address::same(const Address& other) const {
    const Address a = in_domain(AF_INET6), b = other.in_domain(AF_INET6);
    const auto one = read_as<sockaddr_in6>(a.bytes_), two = read_as<sockaddr_in6>(b.bytes_);
    return one.sin6_port == two.sin6_port &&
           std::memcmp(&one.sin6_addr, &two.sin6_addr, sizeof one.sin6_addr) == 0;
}

Address Address::moved(const SocketNames& names) const {
    if (domain() == AF_INET) {
        auto name = read_as<sockaddr_in>(bytes_);
        const auto* host =
            find_moved_host(names, AF_INET, reinterpret_cast<const std::uint8_t*>(&name.sin_addr), 4);
        if (host == nullptr) return {};
        std::memcpy(&name.sin_addr, host->now, 4);
        return Address(bytes_of(name));
    }
    if (domain() != AF_INET6) return {};
    auto name = read_as<sockaddr_in6>(bytes_);
    if (IN6_IS_ADDR_V4MAPPED(&name.sin6_addr)) return in_domain(AF_INET).moved(names).in_domain(AF_INET6);
    const auto* host = find_moved_host(names, AF_INET6, name.sin6_addr.s6_addr, 16);
    if (host == nullptr) return {};
    std::memcpy(name.sin6_addr.s6_addr, host->now, 16);
    return Address(bytes_of(name));
}

bool Address::is_here() const {
    if (empty()) return false;
    const Fd fd(::socket(domain(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::bind(fd.get(), with_port(0).name(), length()) == 0;
}

std::string Address::host_words() const {
    char text[INET6_ADDRSTRLEN] = "";
    if (domain() == AF_INET) {
        const auto name = read_as<sockaddr_in>(bytes_);
        ::inet_ntop(AF_INET, &name.sin_addr, text, sizeof text);
    } else if (domain() == AF_INET6) {
        const auto name = read_as<sockaddr_in6>(bytes_);
        ::inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof text);
    }
    return text;
}

std::string Address::words() const {
    if (domain() == AF_INET) return fmt::format("{}:{}", host_words(), port());
    return domain() == AF_INET6 ? fmt::format("[{}]:{}", host_words(), port()) : "any address";
}

Ports ephemeral_ports() {
    Ports ports;
    std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> ports.first >> ports.last;
    return ports;
}

bool take_for_call(int fd, const Address& own) {
    if (ephemeral_ports().contains(own.port())) {
        const int on = 1;
        const std::uint32_t range = own.port() | std::uint32_t{own.port()} << 16;
        if (::setsockopt(fd, IPPROTO_IP, schema::ip_local_port_range, &range, sizeof range) == 0 &&
            ::setsockopt(fd, IPPROTO_IP, schema::ip_bind_address_no_port, &on, sizeof on) == 0)
            return ::bind(fd, own.with_port(0).name(), own.length()) == 0;
    }
    return ::bind(fd, own.name(), own.length()) == 0;
}

void call_from_any_port(int fd) {
    const int all = 0;
    ::setsockopt(fd, IPPROTO_IP, schema::ip_local_port_range, &all, sizeof all);
}

std::string holder_of_port(const Address& address, int protocol) {
    const bool tcp = protocol == IPPROTO_TCP;
    const std::string of_four = tcp                           ? "/proc/net/tcp"
                                : protocol == IPPROTO_UDPLITE ? "/proc/net/udplite"
                                                              : "/proc/net/udp";
    // A restored program's listener at the same port over IPv6 only is nobody who is in the way.
    const std::set<std::string> own = own_sockets();
    // "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode":
    // proc(5).
    for (const std::string& table : {of_four, of_four + "6"}) {
        std::ifstream file(table);
        std::string line;
        while (std::getline(file, line)) {
            std::istringstream words(line);
            std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
            words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
                inode;
            const auto colon = local.rfind(':');
            if ((tcp && state != "0A") || colon == std::string::npos) continue;  // listening
            if (std::strtoul(local.c_str() + colon + 1, nullptr, 16) != address.port()) continue;
            if (own.contains(fmt::format("socket:[{}]", inode))) continue;
            const std::string who = holder_of_inode(inode);
            return who.empty() ? fmt::format(" by a process of user {}", uid) : who;
        }
    }
    return {};
}

std::unexpected<Error> refuse_taken_port(const Address& address, std::string_view holder) {
    return fail_code(ExitCode::refused,
                     "port {} is taken{}: a restored program listens there; end the other one and restart "
                     "again (a checkpoint with --external=keep-listening takes another port)",
                     address.words(), holder);
}

}  // namespace cairn::restart
