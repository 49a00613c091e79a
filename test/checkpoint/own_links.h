// Network interfaces, set up and looked at by rtnetlink(7).
#pragma once

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <vector>

#include "own_space.h"

namespace own_links {
using namespace own_space;

inline char* data_of(nlmsghdr* message) {
    return reinterpret_cast<char*>(message) + NLMSG_LENGTH(0);
}

class Request {
  public:
    template <class Head>
    Request(unsigned short type, int flags, const Head& head) : bytes_(sizeof(nlmsghdr), 0) {
        nlmsghdr header = {};
        header.nlmsg_type = type;
        header.nlmsg_flags = static_cast<unsigned short>(NLM_F_REQUEST | flags);
        memcpy(bytes_.data(), &header, sizeof header);
        put(&head, sizeof head);
    }
    void put(const void* value, std::size_t size) {
        const auto* from = static_cast<const char*>(value);
        bytes_.insert(bytes_.end(), from, from + size);
        bytes_.resize((bytes_.size() + 3) / 4 * 4);
    }
    std::size_t begin(unsigned short type) {
        const std::size_t at = bytes_.size();
        const rtattr head = {0, type};
        put(&head, sizeof head);
        return at;
    }
    void end(std::size_t at) {
        const auto size = static_cast<unsigned short>(bytes_.size() - at);
        memcpy(bytes_.data() + at, &size, sizeof size);
    }
    void add(unsigned short type, const void* value, std::size_t size) {
        const rtattr head = {static_cast<unsigned short>(sizeof head + size), type};
        put(&head, sizeof head);
        put(value, size);
    }
    // The kernel's answers, the last of which says how it went: 0 or an errno value.
    int ask(std::string& answers) {
        const auto length = static_cast<std::uint32_t>(bytes_.size());
        memcpy(bytes_.data(), &length, sizeof length);
        const int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE);
        CHECK(netlink >= 0 && send(netlink, bytes_.data(), bytes_.size(), 0) > 0);
        int result = -1;
        while (result < 0) {
            alignas(nlmsghdr) char answer[32768];
            const ssize_t got = recv(netlink, answer, sizeof answer, 0);
            CHECK(got > 0);
            auto left = static_cast<unsigned>(got);
            for (auto* each = reinterpret_cast<nlmsghdr*>(answer); NLMSG_OK(each, left);
                 each = NLMSG_NEXT(each, left)) {
                if (each->nlmsg_type == NLMSG_DONE) result = 0;
                if (each->nlmsg_type == NLMSG_ERROR)
                    result = -reinterpret_cast<const nlmsgerr*>(data_of(each))->error;
                else if (each->nlmsg_type != NLMSG_DONE)
                    answers.append(reinterpret_cast<const char*>(each), NLMSG_ALIGN(each->nlmsg_len));
            }
        }
        CHECK(close(netlink) == 0);
        return result;
    }
    int send_it() {
        std::string none;
        nlmsghdr header = {};
        memcpy(&header, bytes_.data(), sizeof header);
        header.nlmsg_flags |= NLM_F_ACK;
        memcpy(bytes_.data(), &header, sizeof header);
        return ask(none);
    }

  private:
    std::vector<char> bytes_;
};

inline int index_of(const std::string& name) {
    const unsigned index = if_nametoindex(name.c_str());
    CHECK(index != 0);
    return static_cast<int>(index);
}

inline Request link_request(const std::string& name, int flags, unsigned set = 0, unsigned change = 0) {
    ifinfomsg head = {};
    head.ifi_flags = set;
    head.ifi_change = change;
    if ((flags & NLM_F_CREATE) == 0) head.ifi_index = index_of(name);
    Request request(RTM_NEWLINK, flags, head);
    if ((flags & NLM_F_CREATE) != 0) request.add(IFLA_IFNAME, name.c_str(), name.size() + 1);
    return request;
}

inline int try_link(const std::string& name, const std::string& kind) {
    Request request = link_request(name, NLM_F_CREATE | NLM_F_EXCL);
    const auto info = request.begin(IFLA_LINKINFO);
    request.add(IFLA_INFO_KIND, kind.c_str(), kind.size());
    request.end(info);
    return request.send_it();
}

inline void add_link(const std::string& name, const std::string& kind) {
    errno = try_link(name, kind);
    CHECK(errno == 0);
}

// `second` in the network of another process; 0: here.
inline void add_pair(const std::string& first, const std::string& second, pid_t there = 0) {
    Request request = link_request(first, NLM_F_CREATE | NLM_F_EXCL);
    const auto info = request.begin(IFLA_LINKINFO);
    request.add(IFLA_INFO_KIND, "veth", 4);
    const auto data = request.begin(IFLA_INFO_DATA);
    const auto peer = request.begin(VETH_INFO_PEER);
    const ifinfomsg head = {};
    request.put(&head, sizeof head);
    request.add(IFLA_IFNAME, second.c_str(), second.size() + 1);
    int space = -1;
    if (there != 0) {
        space = open(("/proc/" + std::to_string(there) + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
        CHECK(space >= 0);
        request.add(IFLA_NET_NS_FD, &space, sizeof space);
    }
    request.end(peer);
    request.end(data);
    request.end(info);
    errno = request.send_it();
    CHECK(errno == 0 && (there == 0 || close(space) == 0));
}

inline void remove_link(const std::string& name) {
    ifinfomsg head = {};
    head.ifi_index = index_of(name);
    CHECK(Request(RTM_DELLINK, 0, head).send_it() == 0);
}

inline void bring_up(const std::string& name) {
    errno = link_request(name, 0, IFF_UP, IFF_UP).send_it();
    CHECK(errno == 0);
}

// A witness compares what comes, too: nobody else sends anything in there. Who may make no network has no
// packet sockets either.
inline void be_alone_if_watched() {
    if (test::is_watched() && unshare(CLONE_NEWNET) == 0) bring_up("lo");
}

inline void set_master(const std::string& name, const std::string& bridge) {
    Request request = link_request(name, 0);
    const int master = index_of(bridge);
    request.add(IFLA_MASTER, &master, sizeof master);
    errno = request.send_it();
    CHECK(errno == 0);
}

inline void set_mtu(const std::string& name, unsigned mtu) {
    Request request = link_request(name, 0);
    request.add(IFLA_MTU, &mtu, sizeof mtu);
    CHECK(request.send_it() == 0);
}

inline void set_hardware(const std::string& name, const char* six) {
    Request request = link_request(name, 0);
    request.add(IFLA_ADDRESS, six, 6);
    CHECK(request.send_it() == 0);
}

inline std::string plain(int family, const std::string& address) {
    std::string bytes(family == AF_INET ? 4 : 16, 0);
    CHECK(inet_pton(family, address.c_str(), bytes.data()) == 1);
    return bytes;
}

// `looked_for`: others on the link who have it are looked for, which takes a second where there may be any.
inline void add_address(const std::string& name, int family, const std::string& address, int prefix,
                        bool looked_for = false) {
    ifaddrmsg head = {};
    head.ifa_family = static_cast<unsigned char>(family);
    head.ifa_prefixlen = static_cast<unsigned char>(prefix);
    head.ifa_flags = family == AF_INET6 && !looked_for ? IFA_F_NODAD : 0;
    head.ifa_index = static_cast<unsigned>(index_of(name));
    Request request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, head);
    const std::string bytes = plain(family, address);
    request.add(IFA_LOCAL, bytes.data(), bytes.size());
    request.add(IFA_ADDRESS, bytes.data(), bytes.size());
    errno = request.send_it();
    CHECK(errno == 0);
}

inline void add_route(int family, const std::string& to, int prefix, const std::string& gateway,
                      const std::string& name) {
    rtmsg head = {};
    head.rtm_family = static_cast<unsigned char>(family);
    head.rtm_dst_len = static_cast<unsigned char>(prefix);
    head.rtm_table = RT_TABLE_MAIN;
    head.rtm_protocol = RTPROT_STATIC;
    head.rtm_type = RTN_UNICAST;
    Request request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, head);
    const std::string bytes = plain(family, to), by_way_of = plain(family, gateway);
    if (prefix != 0) request.add(RTA_DST, bytes.data(), bytes.size());
    request.add(RTA_GATEWAY, by_way_of.data(), by_way_of.size());
    const int index = index_of(name);
    request.add(RTA_OIF, &index, sizeof index);
    errno = request.send_it();
    CHECK(errno == 0);
}

inline std::string hexadecimal(const char* bytes, std::size_t size) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) {
        char two[3];
        snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(bytes[i]));
        text += two;
    }
    return text;
}

// A line for each interface, address and route, without what the kernel counts.
inline std::string look() {
    std::vector<std::string> lines;
    const auto each = [&](unsigned short type, const auto& head, std::initializer_list<int> wanted,
                          const auto& begin) {
        std::string answers;
        CHECK(Request(type, NLM_F_DUMP, head).ask(answers) == 0);
        auto left = static_cast<unsigned>(answers.size());
        for (auto* message = reinterpret_cast<nlmsghdr*>(answers.data()); NLMSG_OK(message, left);
             message = NLMSG_NEXT(message, left)) {
            const auto* its = reinterpret_cast<const std::remove_cvref_t<decltype(head)>*>(data_of(message));
            std::string line = begin(*its);
            if (line.empty()) continue;
            auto* attribute = reinterpret_cast<rtattr*>(reinterpret_cast<char*>(message) +
                                                        NLMSG_LENGTH(NLMSG_ALIGN(sizeof head)));
            auto rest = static_cast<unsigned>(message->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(sizeof head)));
            for (; RTA_OK(attribute, rest); attribute = RTA_NEXT(attribute, rest))
                if (std::find(wanted.begin(), wanted.end(), attribute->rta_type) != wanted.end())
                    line +=
                        " " + std::to_string(attribute->rta_type) + "=" +
                        hexadecimal(static_cast<const char*>(RTA_DATA(attribute)), RTA_PAYLOAD(attribute));
            lines.push_back(line);
        }
    };
    each(RTM_GETLINK, ifinfomsg{}, {IFLA_IFNAME, IFLA_ADDRESS, IFLA_MTU, IFLA_MASTER, IFLA_LINK},
         [](const ifinfomsg& head) {
             constexpr unsigned settable = IFF_UP | IFF_NOARP | IFF_MULTICAST | IFF_PROMISC;
             return "link " + std::to_string(head.ifi_index) + " " +
                    std::to_string(head.ifi_flags & settable);
         });
    // The kernel gives a link addresses of its own, a moment after it is up.
    each(RTM_GETADDR, ifaddrmsg{}, {IFA_LOCAL, IFA_ADDRESS, IFA_LABEL}, [](const ifaddrmsg& head) {
        if (head.ifa_scope == RT_SCOPE_LINK) return std::string();
        return "address " + std::to_string(head.ifa_index) + " /" + std::to_string(head.ifa_prefixlen) +
               ((head.ifa_flags & IFA_F_NODAD) != 0 ? " nodad" : "");
    });
    each(RTM_GETROUTE, rtmsg{}, {RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_TABLE}, [](const rtmsg& head) {
        const bool of_the_kernel = head.rtm_protocol == RTPROT_KERNEL || head.rtm_table == RT_TABLE_LOCAL;
        return of_the_kernel ? std::string()
                             : "route /" + std::to_string(head.rtm_dst_len) + " " +
                                   std::to_string(head.rtm_protocol) + " " + std::to_string(head.rtm_scope);
    });
    std::sort(lines.begin(), lines.end());
    std::string all;
    for (const auto& line : lines) all += line + "\n";
    return all;
}

// It may take the kernel a moment to see that a link is up.
inline void same_as(const std::string& before) {
    std::string now;
    for (int i = 0; i < 200 && now != before; ++i) {
        if (i > 0) test::nap(10);
        now = look();
    }
    if (now != before) test::say(("FAILED before:\n" + before + "now:\n" + now).c_str());
    CHECK(now == before);
}

inline void send_descriptor(int to, int fd) {
    char byte = fd >= 0 ? 'y' : 'n';
    iovec part = {&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    CHECK(sendmsg(to, &message, 0) == 1);
}

inline int receive_descriptor(int from) {
    char byte = 0;
    iovec part = {&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    CHECK(recvmsg(from, &message, MSG_CMSG_CLOEXEC) == 1);
    int fd = -1;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

// Tried in a network of its own.
inline bool kernel_has(const std::string& kind) {
    const pid_t probe = fork();
    if (probe == 0) {
        be_root_of_ones_own(CLONE_NEWNET);
        _exit(try_link("probe", kind) == EOPNOTSUPP ? 1 : 0);
    }
    int status = 0;
    CHECK(waitpid(probe, &status, 0) == probe);
    return status == 0;
}

}  // namespace own_links
