#include "resources/socket/capture.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "common/socket_names.h"

namespace cairn::capture {
namespace {

// Classic BPF only: the kernel doesn't give another one back.
void read_filter(int fd, schema::SocketOptions& options) {
    socklen_t count = 0;
    if (::getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, nullptr, &count) != 0 || count == 0) return;
    std::vector<sock_filter> program(count);
    if (::getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, program.data(), &count) != 0) return;
    options.filter.resize(program.size() * sizeof(sock_filter));
    std::memcpy(options.filter.data(), program.data(), options.filter.size());
    options.filter_locked = socket_option<int>(fd, SOL_SOCKET, SO_LOCK_FILTER) != 0;
}

// The kernel is asked about options of levels that the socket has.
class Levels {
  public:
    explicit Levels(int fd)
        : domain_(socket_option<int>(fd, SOL_SOCKET, SO_DOMAIN)),
          protocol_(socket_option<int>(fd, SOL_SOCKET, SO_PROTOCOL)) {}
    [[nodiscard]] bool has(int level) const {
        const bool internet = domain_ == AF_INET || domain_ == AF_INET6;
        switch (level) {
            case SOL_SOCKET:
                return true;
            case IPPROTO_IP:
                return internet;
            case IPPROTO_IPV6:
                return domain_ == AF_INET6;
            case SOL_NETLINK:
                return domain_ == AF_NETLINK;
            case SOL_PACKET:
                return domain_ == AF_PACKET;
            case IPPROTO_TCP:
                return internet && (protocol_ == IPPROTO_TCP || protocol_ == IPPROTO_MPTCP);
            case IPPROTO_UDP:  // a UDP-Lite socket has all of UDP's: udplite(7)
                return internet && (protocol_ == IPPROTO_UDP || protocol_ == IPPROTO_UDPLITE);
            default:
                return internet && level == protocol_;
        }
    }

  private:
    int domain_, protocol_;
};

using AddressCall = int (*)(int, sockaddr*, socklen_t*);

std::string address(int fd, AddressCall call) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    if (call(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
    return {reinterpret_cast<const char*>(&storage), std::min<std::size_t>(length, sizeof storage)};
}

// Each look begins where the last one ended. The program's own setting is put back.
class Looking {
  public:
    Looking(int fd, int domain, bool stream)
        : fd_(fd),
          unix_(domain == AF_UNIX),
          stream_(stream),
          offset_before_(socket_option<int>(fd, SOL_SOCKET, SO_PEEK_OFF)),
          credentials_before_(unix_ ? socket_option<int>(fd, SOL_SOCKET, SO_PASSCRED) : 0) {
        if (unix_ && credentials_before_ == 0) set(SO_PASSCRED, 1);
    }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;
    ~Looking() {
        set(SO_PEEK_OFF, offset_before_);
        if (unix_ && credentials_before_ == 0) set(SO_PASSCRED, 0);
    }

    struct Seen {
        bool any = false;  // else: nothing waits from there on
        bool cut = false;
        Waiting message;
    };

    // At most `limit` bytes, from so many bytes on.
    Result<Seen> at(std::size_t offset, std::size_t limit) {
        const bool moved = set(SO_PEEK_OFF, static_cast<int>(offset));
        if (!moved && seen_first_) return Seen();  // of such a socket the first message only is to be seen
        seen_first_ = true;
        if (buffer_.size() < limit) buffer_.resize(limit);
        iovec part{buffer_.data(), limit};
        alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int)) + 512];  // SCM_MAX_FD
        sockaddr_storage from{};
        msghdr message{};
        message.msg_name = &from;
        message.msg_namelen = sizeof from;
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        const ssize_t got = ::recvmsg(fd_, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        Seen seen;
        if (got < 0 && (errno == EAGAIN || errno == ENOTCONN)) return seen;
        if (got < 0) return fail_errno("what waits in it can't be read");
        take_control(message, seen);
        // No bytes: the end of a stream, or a message without any. With SO_PASSCRED a message has a sender.
        seen.any =
            got > 0 || (!stream_ && (unix_ ? seen.message.sender.has_value() : message.msg_namelen > 0));
        seen.cut = (message.msg_flags & MSG_TRUNC) != 0;
        seen.message.data.assign(buffer_.begin(), buffer_.begin() + got);
        // A Unix sender without a name: its family alone, or nothing.
        if (message.msg_namelen > sizeof(sa_family_t))
            seen.message.from.assign(reinterpret_cast<const char*>(&from),
                                     std::min<std::size_t>(message.msg_namelen, sizeof from));
        // Nobody's: the kernel notes senders only where one of the two sockets wants to know.
        if (seen.message.sender && seen.message.sender->pid == 0) seen.message.sender.reset();
        return seen;
    }

    // A look shows descriptors that are further ahead as well, but they go with the first byte of what they
    // were sent with. So many of the `size` bytes from `offset` on, which end where that ends, come before
    // it: the kernel copies one piece (sk_buff) after the other, and gives up at one that doesn't fit into
    // memory.
    Result<std::size_t> before_the_last(std::size_t offset, std::size_t size) {
        const std::size_t room = size - 1;
        if (room == 0) return std::size_t{0};
        const std::size_t page_size = 4096, whole = (room + page_size - 1) / page_size * page_size;
        void* memory =
            ::mmap(nullptr, whole + page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return fail_errno("mmap");
        char* const end = static_cast<char*>(memory) + whole;
        ::mprotect(end, page_size, PROT_NONE);
        set(SO_PEEK_OFF, static_cast<int>(offset));
        const ssize_t got = ::recv(fd_, end - room, size, MSG_PEEK | MSG_DONTWAIT);
        ::munmap(memory, whole + page_size);
        return static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }

  private:
    bool set(int name, int value) const {
        return ::setsockopt(fd_, SOL_SOCKET, name, &value, sizeof value) == 0;
    }

    static void take_control(msghdr& message, Seen& seen) {
        for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
            if (part->cmsg_level != SOL_SOCKET) continue;
            const auto* data = reinterpret_cast<const char*>(part) + CMSG_LEN(0);
            const std::size_t size = part->cmsg_len - CMSG_LEN(0);
            constexpr int scm_pidfd = 4;  // since Linux 6.5
            if (part->cmsg_type == SCM_CREDENTIALS && size >= sizeof(ucred)) {
                ucred sender{};
                std::memcpy(&sender, data, sizeof sender);
                seen.message.sender = sender;
            } else if (part->cmsg_type == SCM_RIGHTS) {
                for (std::size_t i = 0; i + sizeof(int) <= size; i += sizeof(int)) {
                    int fd = -1;
                    std::memcpy(&fd, data + i, sizeof fd);
                    seen.message.rights.emplace_back(fd);
                }
            } else if (part->cmsg_type == scm_pidfd && size >= sizeof(int)) {
                int fd = -1;
                std::memcpy(&fd, data, sizeof fd);
                const Fd close_it(fd);
            }
        }
    }

    int fd_;
    bool unix_, stream_;
    int offset_before_, credentials_before_;
    bool seen_first_ = false;
    schema::Bytes buffer_;
};

}  // namespace

schema::SocketOptions socket_options_of(int fd) {
    schema::SocketOptions options;
    const Levels levels(fd);
    schema::each_option(options, [&]<class T>(const schema::SocketOption& option, std::optional<T>& saved) {
        if (!levels.has(option.level)) return;
        alignas(8) char value[256] = {};
        socklen_t length = option.form == schema::OptionForm::number ? sizeof(int) : sizeof value;
        if (::getsockopt(fd, option.level, option.option, value, &length) != 0) return;
        if constexpr (std::is_same_v<T, std::int32_t>)
            std::memcpy(&saved.emplace(), value, std::min<std::size_t>(length, sizeof *saved));
        else
            saved.emplace(value, value + (option.form == schema::OptionForm::text ? ::strnlen(value, length)
                                                                                  : std::size_t{length}));
    });
    options.send_buffer = socket_option<int>(fd, SOL_SOCKET, SO_SNDBUF);
    options.receive_buffer = socket_option<int>(fd, SOL_SOCKET, SO_RCVBUF);
    int locks = 0;
    socklen_t length = sizeof locks;
    if (::getsockopt(fd, SOL_SOCKET, schema::so_buf_lock, &locks, &length) == 0) options.buffer_lock = locks;
    int offset = -1;
    length = sizeof offset;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, &length) == 0 && offset >= 0)
        options.peek_offset = offset;
    const int family = socket_option<int>(fd, SOL_SOCKET, SO_DOMAIN);
    if (family == AF_UNIX || family == AF_NETLINK)
        if (const int reuse = socket_option<int>(fd, SOL_SOCKET, SO_REUSEADDR); reuse != 0)
            options.reuse_address = reuse;
    read_filter(fd, options);
    return options;
}

std::string own_address(int fd) {
    return address(fd, [](int socket, sockaddr* name, socklen_t* length) {
        return ::getsockname(socket, name, length);
    });
}

std::string peer_address(int fd) {
    return address(fd, [](int socket, sockaddr* name, socklen_t* length) {
        return ::getpeername(socket, name, length);
    });
}

std::string address_words(const std::string& address) {
    sockaddr_storage storage{};
    std::memcpy(&storage, address.data(), std::min(address.size(), sizeof storage));
    char text[INET6_ADDRSTRLEN] = "";
    if (storage.ss_family == AF_INET) {
        sockaddr_in name{};
        std::memcpy(&name, &storage, sizeof name);
        ::inet_ntop(AF_INET, &name.sin_addr, text, sizeof text);
        return fmt::format("{}:{}", text, ntohs(name.sin_port));
    }
    if (storage.ss_family == AF_INET6) {
        sockaddr_in6 name{};
        std::memcpy(&name, &storage, sizeof name);
        ::inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof text);
        return fmt::format("[{}]:{}", text, ntohs(name.sin6_port));
    }
    if (address.size() <= sizeof(sa_family_t)) return "unnamed";
    std::string name = address.substr(sizeof(sa_family_t));
    if (name.front() == 0) {
        name.front() = '@';
        return name;
    }
    return name.c_str();
}

std::string plain_address(const std::string& address) {
    sockaddr_storage storage{};
    std::memcpy(&storage, address.data(), std::min(address.size(), sizeof storage));
    if (storage.ss_family == AF_INET6) {
        sockaddr_in6 name{};
        std::memcpy(&name, &storage, sizeof name);
        const auto* bytes = reinterpret_cast<const char*>(&name.sin6_addr);
        const bool mapped = IN6_IS_ADDR_V4MAPPED(&name.sin6_addr);
        return std::string(bytes + (mapped ? 12 : 0), bytes + 16) +
               std::string(reinterpret_cast<const char*>(&name.sin6_port), 2);
    }
    sockaddr_in name{};
    std::memcpy(&name, &storage, sizeof name);
    return std::string(reinterpret_cast<const char*>(&name.sin_addr), 4) +
           std::string(reinterpret_cast<const char*>(&name.sin_port), 2);
}

std::string as_known(const Region* region, const std::string& address) {
    std::string known = address;
    if (region == nullptr || region->sockets.moved.load() == 0 || address.size() < sizeof(sockaddr_in))
        return known;
    sa_family_t family = AF_UNSPEC;
    std::memcpy(&family, address.data(), sizeof family);
    constexpr std::size_t end_of_six = offsetof(sockaddr_in6, sin6_addr) + sizeof(in6_addr);
    std::size_t at = offsetof(sockaddr_in, sin_addr), size = sizeof(in_addr);
    std::uint32_t kind = AF_INET;
    if (family == AF_INET6 && address.size() >= end_of_six) {
        in6_addr six{};
        std::memcpy(&six, address.data() + offsetof(sockaddr_in6, sin6_addr), sizeof six);
        const bool mapped = IN6_IS_ADDR_V4MAPPED(&six);
        kind = mapped ? AF_INET : AF_INET6;
        size = mapped ? 4 : 16;
        at = end_of_six - size;
    } else if (family != AF_INET) {
        return known;
    }
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(address.data()) + at;
    const MovedHost* host = find_known_host(region->sockets, kind, bytes, static_cast<std::uint32_t>(size));
    if (host != nullptr) std::memcpy(known.data() + at, host->known, size);
    return known;
}

std::vector<std::string> reachable_at(int fd, const std::string& address) {
    const std::string own = plain_address(address), port = own.substr(own.size() - 2);
    if (own.substr(0, own.size() - 2) != std::string(own.size() - 2, 0)) return {own};
    std::vector<std::string> found;
    const bool six = own.size() > 6;
    const bool four = !six || socket_option<int>(fd, IPPROTO_IPV6, IPV6_V6ONLY) == 0;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return found;
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
        const int family = each->ifa_addr->sa_family;
        if (!(family == AF_INET && four) && !(family == AF_INET6 && six)) continue;
        const std::string plain =
            plain_address(std::string(reinterpret_cast<const char*>(each->ifa_addr),
                                      family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)));
        found.push_back(plain.substr(0, plain.size() - 2) + port);
    }
    ::freeifaddrs(all);
    return found;
}

Result<std::vector<Waiting>> look_into(int fd, int domain, bool stream) {
    std::vector<Waiting> found;
    // A look at an empty queue takes a pending error (ECONNRESET) away, so no look goes further than what is
    // known to be there. Only empty packets aren't counted.
    int waiting = 0;
    if (::ioctl(fd, FIONREAD, &waiting) != 0) waiting = 0;
    pollfd polled{fd, POLLIN, 0};
    ::poll(&polled, 1, 0);
    const bool counted = stream || (polled.revents & POLLERR) != 0;
    if (counted ? waiting == 0 : (polled.revents & POLLIN) == 0) return found;
    Looking looking(fd, domain, stream);
    std::size_t offset = 0, limit = std::size_t{1} << 18;
    while (!counted || offset < static_cast<std::size_t>(waiting)) {
        auto seen = looking.at(offset, limit);
        if (!seen) return std::unexpected(std::move(seen.error()));
        if (!seen->any) break;
        Waiting& message = seen->message;
        if (!stream && seen->cut) {
            limit *= 2;
            continue;
        }
        if (stream && !message.rights.empty()) {
            auto before = TRY(looking.before_the_last(offset, message.data.size()));
            if (before > 0) {
                message.rights.clear();
                message.data.resize(before);
            } else if (message.data.size() == limit) {
                limit *= 2;  // what they were sent with is longer: it must not show them again
                continue;
            }
        }
        offset += message.data.size();
        found.push_back(std::move(message));
    }
    return found;
}

}  // namespace cairn::capture
