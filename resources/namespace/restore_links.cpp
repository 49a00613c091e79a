#include "resources/namespace/restore_links.h"

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "resources/namespace/restore.h"
#include "resources/tun/restore_address.h"

namespace cairn::restart {
namespace {

using schema::Link;
using schema::LinkKind;

// A request of rtnetlink(7), with attributes that may have others in them.
class LinkRequest {
  public:
    template <class Head>
    LinkRequest(std::uint16_t type, int flags, const Head& head) : bytes_(sizeof(nlmsghdr)) {
        nlmsghdr header{};
        header.nlmsg_type = type;
        header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
        std::memcpy(bytes_.data(), &header, sizeof header);
        put(&head, sizeof head);
    }
    void add(std::uint16_t type, const void* value, std::size_t size) {
        const auto at = begin(type);
        put(value, size);
        end(at);
    }
    template <class Value>
    void add(std::uint16_t type, const Value& value) {
        add(type, &value, sizeof value);
    }
    void add(std::uint16_t type, const std::string& text) { add(type, text.c_str(), text.size() + 1); }
    std::size_t begin(std::uint16_t type) {
        const auto at = bytes_.size();
        const rtattr head{0, type};
        put(&head, sizeof head);
        return at;
    }
    void end(std::size_t at) {
        const auto size = static_cast<std::uint16_t>(bytes_.size() - at);
        std::memcpy(bytes_.data() + at, &size, sizeof size);
        bytes_.resize((bytes_.size() + 3) / 4 * 4);
    }
    void put(const void* value, std::size_t size) {
        const auto* from = static_cast<const char*>(value);
        bytes_.insert(bytes_.end(), from, from + size);
    }
    // 0 or an errno value.
    [[nodiscard]] int send_to_kernel() {
        const auto length = static_cast<std::uint32_t>(bytes_.size());
        std::memcpy(bytes_.data(), &length, sizeof length);
        const Fd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE));
        char answer[8192];
        if (!netlink || ::send(netlink.get(), bytes_.data(), bytes_.size(), 0) < 0) return errno;
        const ssize_t got = ::recv(netlink.get(), answer, sizeof answer, 0);
        if (got < static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(int))) return got < 0 ? errno : EBADMSG;
        int error = 0;  // nlmsgerr::error
        std::memcpy(&error, answer + sizeof(nlmsghdr), sizeof error);
        return -error;
    }

  private:
    std::vector<char> bytes_;
};

ifinfomsg head_of(std::int32_t index) {
    ifinfomsg head{};
    head.ifi_index = index;
    return head;
}

void add_settings(LinkRequest& request, const Link& link) {
    request.add(IFLA_IFNAME, link.name);
    request.add(IFLA_MTU, link.mtu);
    request.add(IFLA_TXQLEN, link.queue_length);
    if (!link.hardware.empty()) request.add(IFLA_ADDRESS, link.hardware.data(), link.hardware.size());
}

const schema::OwnNamespace* network_of(const schema::Object& object) {
    const auto* saved = object.get<schema::Namespace>();
    const bool is_one = saved != nullptr && saved->own && saved->type == schema::NamespaceType::net;
    return is_one ? &*saved->own : nullptr;
}

const Link* find_link(const schema::OwnNamespace* network, std::int32_t index) {
    if (network == nullptr || !network->links) return nullptr;
    const auto found = std::ranges::find(*network->links, index, &Link::index);
    return found == network->links->end() ? nullptr : &*found;
}

// The rest of what only a network has that is being made again.
class Networks {
  public:
    explicit Networks(Opening& opening) : opening_(opening) {}

    Result<> make() {
        for (const auto& object : opening_.objects.objects)
            if (const auto* network = network_of(object); network != nullptr && network->links)
                for (const Link& link : *network->links)
                    CHECK_OK(with_name(object, make(object.id, *network, link)));
        for (const auto& object : opening_.objects.objects) {
            const auto* network = network_of(object);
            if (network == nullptr || (!network->links && !network->routes)) continue;
            CHECK_OK(with_name(object, in_own_space(opening_, object.id, [&] { return furnish(*network); })));
        }
        return {};
    }

    Result<> join(const schema::OwnNamespace& network, std::int32_t index) {
        const Link* const link = find_link(&network, index);
        if (link != nullptr && link->master != 0) become_port(*link);
        add_routes(network, true);
        return {};
    }

  private:
    // A pair is made by the first of its two ends.
    Result<> make(std::int64_t network, const schema::OwnNamespace& here, const Link& link) {
        if (link.kind == LinkKind::loopback || link.kind == LinkKind::tun) return {};
        const Link* peer = nullptr;
        Lent other;
        if (link.kind == LinkKind::veth) {
            const std::int64_t there = link.peer_space.value_or(network);
            if (std::pair(there, link.peer) < std::pair(network, link.index)) return {};
            if (link.peer_space) other = TRY(opening_.opened.lend(there));
            const auto found = std::ranges::find(opening_.objects.objects, there, &schema::Object::id);
            const auto* space = found == opening_.objects.objects.end() ? nullptr : network_of(*found);
            peer = find_link(link.peer_space ? space : &here, link.peer);
            if (peer == nullptr || (link.peer_space && !other))
                return fail_code(ExitCode::damaged, "the other end of {} isn't there", link.name);
        }
        return in_own_space(opening_, network, [&] { return create(link, peer, other.get()); });
    }

    static Result<> create(const Link& link, const Link* peer, int peers_network) {
        LinkRequest request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, head_of(link.index));
        add_settings(request, link);
        const auto info = request.begin(IFLA_LINKINFO);
        request.add(IFLA_INFO_KIND, std::string(schema::name_of(link.kind)));
        if (peer != nullptr || !link.settings.empty()) {
            const auto data = request.begin(IFLA_INFO_DATA);
            request.put(link.settings.data(), link.settings.size());
            if (peer != nullptr) {
                const auto end = request.begin(VETH_INFO_PEER);
                const ifinfomsg head = head_of(peer->index);
                request.put(&head, sizeof head);
                add_settings(request, *peer);
                if (peers_network >= 0) request.add(IFLA_NET_NS_FD, peers_network);
                request.end(end);
            }
            request.end(data);
        }
        request.end(info);
        errno = request.send_to_kernel();
        if (errno == 0) return {};
        if (errno == EOPNOTSUPP)
            return fail_code(ExitCode::refused,
                             "the network interface {}: this kernel has no interfaces of the kind {}",
                             link.name, schema::name_of(link.kind));
        return fail_errno("the network interface {} ({}) can't be made again", link.name,
                          schema::name_of(link.kind));
    }

    Result<> furnish(const schema::OwnNamespace& network) {
        bool waits = false;
        if (network.links) {
            for (const Link& link : *network.links)
                if (link.kind != LinkKind::tun && link.master != 0) become_port(link);
            for (const Link& link : *network.links) {
                waits |= link.kind == LinkKind::tun;
                if (link.kind != LinkKind::tun) CHECK_OK(configure(link));
            }
        }
        add_routes(network, !waits);
        return {};
    }

    void become_port(const Link& link) {
        LinkRequest request(RTM_NEWLINK, 0, head_of(link.index));
        request.add(IFLA_MASTER, link.master);
        if (const int problem = request.send_to_kernel(); problem != 0)
            opening_.note("the network interface {} can't be a port again: {}", link.name,
                          std::strerror(problem));
    }

    static Result<> configure(const Link& link) {
        const auto index = static_cast<unsigned>(link.index);
        for (const auto& address : link.addresses) CHECK_OK(add_tun_address(index, address));
        if (link.kind == LinkKind::loopback) {
            settle_addresses(index, link.addresses);
            return {};
        }
        ifinfomsg head = head_of(link.index);
        head.ifi_flags = link.flags;
        head.ifi_change = ~0U;
        LinkRequest request(RTM_NEWLINK, 0, head);
        if (errno = request.send_to_kernel(); errno != 0)
            return fail_errno("the network interface {}: flags {:#x}", link.name, link.flags);
        // One that comes up gets an address of the kernel's own for the link, which may be another each time.
        remove_other_addresses(link.name, index, link.addresses);
        settle_addresses(index, link.addresses);
        return {};
    }

    // In whatever order they are: one may be reached by another only.
    void add_routes(const schema::OwnNamespace& network, bool all_there) {
        if (!network.routes) return;
        std::vector<const schema::Bytes*> left;
        for (const auto& route : *network.routes) left.push_back(&route);
        int problem = 0;
        const auto is_set = [&](const schema::Bytes* route) {
            rtmsg head{};
            if (route->size() < sizeof head) return true;
            std::memcpy(&head, route->data(), sizeof head);
            LinkRequest request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, head);
            request.put(route->data() + sizeof head, route->size() - sizeof head);
            problem = request.send_to_kernel();
            return problem == 0 || problem == EEXIST;
        };
        while (std::erase_if(left, is_set) != 0) {
        }
        if (all_there && !left.empty())
            opening_.note("{} of the routes of a network of the programs' own can't be set again: {}",
                          left.size(), std::strerror(problem));
    }

    Opening& opening_;
};

}  // namespace

Result<> make_links(Opening& opening) {
    return Networks(opening).make();
}

Result<> join_links(Opening& opening, std::int64_t network, std::int32_t index) {
    const auto found = std::ranges::find(opening.objects.objects, network, &schema::Object::id);
    const auto* saved = found == opening.objects.objects.end() ? nullptr : network_of(*found);
    return saved == nullptr ? Result<>() : Networks(opening).join(*saved, index);
}

}  // namespace cairn::restart
