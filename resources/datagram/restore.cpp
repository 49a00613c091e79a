// UDP, UDP-Lite and raw sockets: bound again, filled with the datagrams that waited, connected.
#include "resources/socket/restore.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "resources/namespace/restore.h"
#include "resources/ports/restore_stand_ins.h"
#include "resources/restore/opening.h"
#include "resources/socket/restore_addresses.h"

namespace cairn::restart {
namespace {

using schema::Object;

struct DatagramEnd {
    const Object* object = nullptr;
    const schema::Datagram* saved = nullptr;
    const schema::UdpLite* lite = nullptr;  // what it is more than that
    Address own, peer_name;  // of now: programs know them by other addresses where a host has moved
    Fd fd;
    bool bound = false;
    [[nodiscard]] std::string words() const { return Address(saved->own).words(); }
};

// Of one network (Object::network).
class DatagramSockets {
  public:
    DatagramSockets(Opening& opening, std::int64_t network)
        : opening_(opening),
          network_(network),
          stand_ins_(opening.options.region == nullptr ? nullptr : &opening.options.region->sockets) {}

    Result<> open() {
        for (const Object& object : opening_.objects.objects) {
            const auto* lite = object.get<schema::UdpLite>();
            const auto* saved = lite != nullptr ? &lite->socket : object.get<schema::Datagram>();
            if (saved == nullptr || object.network != network_) continue;
            DatagramEnd& end = ends_[object.id];
            end.object = &object;
            end.saved = saved;
            end.lite = lite;
            end.own = of_now(Address(saved->own));
            end.peer_name = of_now(Address(saved->peer_name));
        }
        // Filled as soon as it is bound: of several at one port (SO_REUSEADDR) the last one gets what is
        // sent.
        for (auto& [id, end] : ends_) {
            if (auto done = make(end); !done) return std::unexpected(std::move(done.error()).in(end.words()));
            choose(end);
            if (auto done = fill(end); !done) return std::unexpected(std::move(done.error()).in(end.words()));
        }
        for (const auto& [id, end] : ends_) leave_the_choice(end);
        for (auto& [id, end] : ends_)
            if (auto done = finish(end); !done)
                return std::unexpected(std::move(done.error()).in(end.words()));
        return {};
    }

  private:
    // Names of these sockets aren't kept in the region's table, where they would stay when a program connects
    // one to somebody else: getsockname(2) and its like say of each address which host programs know there.
    [[nodiscard]] Address of_now(const Address& known) const {
        if (opening_.options.region == nullptr || known.empty() || known.is_any()) return known;
        const Address now = known.moved(opening_.options.region->sockets);
        return now.empty() ? known : now;
    }

    Result<> make(DatagramEnd& end) {
        const schema::Datagram& saved = *end.saved;
        end.fd.reset(::socket(saved.domain, saved.style | SOCK_CLOEXEC, saved.protocol));
        if (!end.fd && errno == EPROTONOSUPPORT && saved.protocol == IPPROTO_UDPLITE)
            return fail_code(ExitCode::refused,
                             "this kernel has no UDP-Lite (Linux 7.1 and later have none), and a restored "
                             "program has such a socket: restart on another machine");
        if (!end.fd) return fail_errno("socket");
        const int fd = end.fd.get();
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, saved.reuse_address);
        set_socket_options(fd, end.saved->options, schema::OptionMoment::before_bind);
        if (end.own.port() == 0 && (end.own.is_any() || saved.style != SOCK_RAW)) return {};
        if (saved.style == SOCK_RAW && end.own.is_any()) return {};
        if (::bind(fd, end.own.name(), end.own.length()) == 0) {
            end.bound = true;
            return {};
        }
        const int problem = errno;
        // Who has only asked has got its port from connect or sendto, and any will do; a server wants its
        // own.
        if (problem == EADDRINUSE && !end.peer_name.empty() &&
            ::bind(fd, end.own.with_port(0).name(), end.own.length()) == 0) {
            end.bound = true;
            opening_.note("{} port {} is taken: a connected socket that had it is at {} now",
                          name_of_protocol(saved), end.own.words(), Address::of(fd).words());
            return {};
        }
        errno = problem;
        if (problem == EADDRINUSE)
            return fail_code(ExitCode::refused, "this {} port is taken{}: a restored program is bound to it",
                             name_of_protocol(saved), holder_of_port(end.own, saved.protocol));
        return fail_errno("bind");
    }

    // Of several at one port by SO_REUSEPORT the kernel chooses one for each datagram, by where it is from;
    // or a program does, which names one of them by its place in the order in which they were bound
    // (reuseport_add_sock() and reuseport_select_sock(), net/core/sock_reuseport.c).
    void choose(const DatagramEnd& last) const {
        if (!shares_port(last)) return;
        std::uint32_t before = 0;
        for (const auto& [id, end] : ends_)
            before += id != last.object->id && shares_port(end) && end.saved->domain == last.saved->domain &&
                              end.saved->protocol == last.saved->protocol && end.own.same(last.own)
                          ? 1U
                          : 0U;
        sock_filter that_one = BPF_STMT(BPF_RET | BPF_K, before);
        const sock_fprog program{1, &that_one};
        ::setsockopt(last.fd.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
    }
    static void leave_the_choice(const DatagramEnd& end) {
        if (shares_port(end)) set_int(end.fd.get(), SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0);
    }
    [[nodiscard]] static bool shares_port(const DatagramEnd& end) {
        int shares = 0;
        socklen_t length = sizeof shares;
        return end.bound && end.saved->style == SOCK_DGRAM &&
               ::getsockopt(end.fd.get(), SOL_SOCKET, SO_REUSEPORT, &shares, &length) == 0 && shares != 0;
    }

    // Each protocol has ports of its own.
    [[nodiscard]] int member_at(const Address& address, int protocol) const {
        for (const auto& [id, end] : ends_)
            if (end.bound && end.saved->protocol == protocol && end.own.port() == address.port() &&
                (end.own.is_any() ? address.is_here() : end.own.same(address)))
                return end.fd.get();
        return -1;
    }

    Result<> fill(const DatagramEnd& end) {
        if (end.object->contents.empty()) return {};
        make_room(end.fd.get(), size_of(end));
        std::size_t left_out = 0;
        for (std::size_t i = 0; i < end.object->contents.size(); ++i) {
            const auto& senders = end.saved->senders;
            const Address from = i < senders.size() ? of_now(Address(senders[i])) : Address();
            Fd temporary;
            int sender = member_at(from, end.saved->protocol);
            if (sender < 0 && !from.empty()) {
                temporary = stand_ins_.speak_for(from.in_domain(AF_INET), end.saved->protocol);
                sender = temporary ? temporary.get() : -1;
            }
            int sender_domain = from.domain();
            socklen_t length = sizeof sender_domain;
            ::getsockopt(sender, SOL_SOCKET, SO_DOMAIN, &sender_domain, &length);
            Address to =
                end.own.is_any() ? Address::loopback(end.saved->domain).with_port(end.own.port()) : end.own;
            // From an IPv4 address to a socket of both worlds.
            if (end.own.is_any() && from.in_domain(AF_INET).domain() == AF_INET)
                to = Address::loopback(AF_INET).with_port(end.own.port());
            to = to.in_domain(sender_domain);
            const auto& data = end.object->contents[i];
            const bool sent = sender >= 0 && !end.own.is_multicast() &&
                              ::sendto(sender, data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                                       to.name(), to.length()) == static_cast<ssize_t>(data.size());
            left_out += sent ? 0 : 1;
        }
        if (left_out != 0)
            opening_.note(
                "{}: {} datagrams that waited in it came from where nobody can send from now: left out",
                end.words(), left_out);
        return {};
    }

    static std::size_t size_of(const DatagramEnd& end) {
        std::size_t size = 0;
        for (const schema::Bytes& each : end.object->contents) size += each.size() + 1024;
        return size;
    }

    void join(const DatagramEnd& end, const std::vector<schema::MulticastGroup>& groups, int level) const {
        for (const schema::MulticastGroup& each : groups) {
            group_filter head{};
            if (each.filter.size() < GROUP_FILTER_SIZE(0)) continue;
            std::memcpy(&head, each.filter.data(), std::min(each.filter.size(), sizeof head));
            group_req request{};
            // Another host may count its interfaces in another way.
            const std::string& name = each.interface_name;
            request.gr_interface = name.empty() ? 0 : ::if_nametoindex(name.c_str());
            if (request.gr_interface == 0) request.gr_interface = each.interface;
            request.gr_group = head.gf_group;
            if (::setsockopt(end.fd.get(), level, MCAST_JOIN_GROUP, &request, sizeof request) != 0) {
                opening_.note("{}: a multicast group can't be joined again: {}", end.words(),
                              std::strerror(errno));
                continue;
            }
            if (head.gf_fmode == MCAST_EXCLUDE && head.gf_numsrc == 0) continue;
            schema::Bytes changed = each.filter;
            head.gf_interface = request.gr_interface;
            std::memcpy(changed.data(), &head, GROUP_FILTER_SIZE(0));
            ::setsockopt(end.fd.get(), level, MCAST_MSFILTER, changed.data(),
                         static_cast<socklen_t>(changed.size()));
        }
    }

    // By its address (in_addr), which may be another one now.
    void choose_multicast_interface(const DatagramEnd& end) const {
        const auto* bytes =
            schema::find_option<schema::Bytes>(end.saved->options, IPPROTO_IP, IP_MULTICAST_IF);
        sockaddr_in name{};
        if (bytes == nullptr || bytes->size() != sizeof name.sin_addr) return;
        std::memcpy(&name.sin_addr, bytes->data(), sizeof name.sin_addr);
        name.sin_family = AF_INET;
        const Address known(std::string(reinterpret_cast<const char*>(&name), sizeof name));
        const Address now = of_now(known);
        if (known.is_any() || now.same(known)) return;
        const auto host = now.host_bytes().first;
        ::setsockopt(end.fd.get(), IPPROTO_IP, IP_MULTICAST_IF, host.data(), sizeof name.sin_addr);
    }

    // Once all sockets are filled: what waits may have come with less coverage than its receiver has set
    // since. One that is 0 isn't set, because a new socket has it, and takes more than one that has set it
    // (describe_udplite_socket()).
    static void set_coverages(const DatagramEnd& end) {
        if (end.lite == nullptr) return;
        for (const auto& [option, bytes] : {std::pair{schema::udplite_send_coverage, end.lite->send_coverage},
                                            {schema::udplite_receive_coverage, end.lite->receive_coverage}})
            if (bytes != 0) set_int(end.fd.get(), IPPROTO_UDPLITE, option, bytes);
    }

    Result<> finish(DatagramEnd& end) {
        const int fd = end.fd.get();
        join(end, end.saved->groups, end.saved->domain == AF_INET ? IPPROTO_IP : IPPROTO_IPV6);
        join(end, end.saved->groups_v4, IPPROTO_IP);
        if (!end.peer_name.empty() && ::connect(fd, end.peer_name.name(), end.peer_name.length()) != 0)
            opening_.note("{}: can't be connected to {} again: {}", end.words(), end.peer_name.words(),
                          std::strerror(errno));
        set_socket_options(fd, end.saved->options, schema::OptionMoment::last);
        choose_multicast_interface(end);
        set_coverages(end);
        set_buffers(fd, end.saved->options);
        CHECK_OK(set_flags(fd, *end.object));
        return opening_.keep(*end.object, std::move(end.fd));
    }

    Opening& opening_;
    std::int64_t network_;
    std::map<std::int64_t, DatagramEnd> ends_;  // by object
    StandIns stand_ins_;
};

}  // namespace

Result<> open_datagram_sockets(Opening& opening) {
    CHECK_OK(opening.opened.hand_over());  // the sockets are open at once
    return in_each_network<schema::Datagram, schema::UdpLite>(
        opening, [&](std::int64_t network) { return DatagramSockets(opening, network).open(); });
}

}  // namespace cairn::restart
