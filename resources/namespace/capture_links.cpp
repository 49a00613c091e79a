#include "resources/namespace/capture_links.h"

#include <linux/if_link.h>
#include <linux/net_namespace.h>
#include <net/if.h>

#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "resources/tun/capture_link.h"
#include "resources/tun/capture_rtnetlink.h"

namespace cairn::capture {
namespace {

using schema::LinkKind;

constexpr std::uint32_t kept_link_flags =
    IFF_UP | IFF_DEBUG | IFF_NOARP | IFF_PROMISC | IFF_ALLMULTI | IFF_MULTICAST;

// Older than the headers of some machines: linux/if_link.h.
constexpr std::array kept_bridge_settings = {IFLA_BR_FORWARD_DELAY,  IFLA_BR_HELLO_TIME,   IFLA_BR_MAX_AGE,
                                             IFLA_BR_AGEING_TIME,    IFLA_BR_STP_STATE,    IFLA_BR_PRIORITY,
                                             IFLA_BR_VLAN_FILTERING, IFLA_BR_VLAN_PROTOCOL};

// The kernel gives each network one of these where the module is loaded
// (net.core.fb_tunnels_only_for_init_net).
constexpr std::array<std::string_view, 9> everywhere = {
    "sit0", "tunl0", "gre0", "gretap0", "erspan0", "ip6tnl0", "ip_vti0", "ip6_vti0", "ip6gre0"};

struct Seen {
    schema::Link link;
    std::string kind;
    std::optional<std::int32_t> network;
};

void keep_attribute(schema::Bytes& to, int type, LinkBytes value) {
    const rtattr head{static_cast<unsigned short>(sizeof head + value.size()),
                      static_cast<unsigned short>(type)};
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&head);
    to.insert(to.end(), bytes, bytes + sizeof head);
    to.insert(to.end(), value.begin(), value.end());
    to.resize(link_aligned(to.size()));
}

void read_link_info(LinkBytes info, Seen& seen) {
    each_link_attribute(info, [&](int part, LinkBytes value) {
        if (part == IFLA_INFO_KIND) seen.kind.assign(value.data(), ::strnlen(value.data(), value.size()));
        if (part != IFLA_INFO_DATA || seen.kind != "bridge") return;
        each_link_attribute(value, [&](int type, LinkBytes setting) {
            // A kernel that can't filter doesn't take that it shall not, either.
            if (type == IFLA_BR_VLAN_FILTERING && link_value<std::uint8_t>(setting) == 0) return;
            if (std::ranges::find(kept_bridge_settings, type) != kept_bridge_settings.end())
                keep_attribute(seen.link.settings, type, setting);
        });
    });
}

Seen read_link_of_network(const ifinfomsg& head, LinkBytes attributes) {
    Seen seen;
    schema::Link& link = seen.link;
    link.index = head.ifi_index;
    link.flags = head.ifi_flags & kept_link_flags;
    each_link_attribute(attributes, [&](int type, LinkBytes value) {
        switch (type) {
            case IFLA_IFNAME:
                link.name.assign(value.data(), ::strnlen(value.data(), value.size()));
                break;
            case IFLA_MTU:
                link.mtu = link_value<std::uint32_t>(value);
                break;
            case IFLA_TXQLEN:
                link.queue_length = link_value<std::uint32_t>(value);
                break;
            case IFLA_ADDRESS:
                link.hardware = link_bytes(value);
                break;
            case IFLA_MASTER:
                link.master = link_value<std::int32_t>(value);
                break;
            case IFLA_LINK:
                link.peer = link_value<std::int32_t>(value);
                break;
            case IFLA_LINK_NETNSID:
                seen.network = link_value<std::int32_t>(value);
                break;
            case IFLA_LINKINFO:
                read_link_info(value, seen);
                break;
            default:
                break;
        }
    });
    return seen;
}

Result<LinkKind> kind_of_link(const Seen& seen) {
    if (seen.link.name == "lo" && seen.kind.empty()) return LinkKind::loopback;
    if (seen.kind == "dummy") return LinkKind::dummy;
    if (seen.kind == "bridge") return LinkKind::bridge;
    if (seen.kind == "veth") return LinkKind::veth;
    if (seen.kind == "tun") return LinkKind::tun;
    return fail_code(ExitCode::refused,
                     "has the network interface {} ({}), which can't be saved; take it out, or start cairn "
                     "inside of that network",
                     seen.link.name, seen.kind.empty() ? "a device of the machine's" : seen.kind);
}

// Without those that the kernel makes of an interface's addresses, or has been told of by a router.
Result<std::vector<schema::Bytes>> routes_of_network() {
    std::vector<schema::Bytes> routes;
    for (const int family : {AF_INET, AF_INET6}) {
        LinkQuestion<rtmsg> question(RTM_GETROUTE, NLM_F_DUMP);
        question.head.rtm_family = static_cast<std::uint8_t>(family);
        auto asked = ask_link(question, [&](const rtmsg& head, LinkBytes attributes) {
            if (head.rtm_protocol == RTPROT_KERNEL || head.rtm_protocol == RTPROT_RA ||
                head.rtm_protocol == RTPROT_REDIRECT || head.rtm_table == RT_TABLE_LOCAL ||
                (head.rtm_flags & RTM_F_CLONED) != 0)
                return;
            rtmsg wanted = head;
            wanted.rtm_flags &= RTNH_F_ONLINK;  // the others are what the kernel finds
            const auto* bytes = reinterpret_cast<const std::uint8_t*>(&wanted);
            schema::Bytes& route = routes.emplace_back(bytes, bytes + sizeof wanted);
            each_link_attribute(attributes, [&](int type, LinkBytes value) {
                if (type != RTA_CACHEINFO) keep_attribute(route, type, value);
            });
        });
        // A kernel without IPv6 knows no routes of it.
        if (!asked && family == AF_INET) return std::unexpected(std::move(asked.error()));
    }
    return routes;
}

// What every loopback interface has.
bool is_of_any_loopback(const schema::TunAddress& address) {
    const schema::Bytes four = {127, 0, 0, 1};
    schema::Bytes six(16);
    six.back() = 1;
    return address.own == four || address.own == six;
}

}  // namespace

Result<FoundLinks> find_links() {
    std::vector<Seen> all;
    CHECK_OK(ask_link(LinkQuestion<ifinfomsg>(RTM_GETLINK, NLM_F_DUMP),
                      [&](const ifinfomsg& head, LinkBytes attributes) {
                          all.push_back(read_link_of_network(head, attributes));
                      }));
    FoundLinks found;
    for (Seen& seen : all) {
        schema::Link& link = seen.link;
        if ((link.flags & IFF_UP) == 0 && std::ranges::find(everywhere, link.name) != everywhere.end())
            continue;
        link.kind = TRY(kind_of_link(seen));
        link.addresses = TRY(tun_addresses(link.index));
        if (link.kind != LinkKind::veth) link.peer = 0;
        if (link.kind == LinkKind::loopback) {
            std::erase_if(link.addresses, is_of_any_loopback);
            if (link.addresses.empty()) continue;
        }
        if (link.kind == LinkKind::veth && seen.network)
            found.far_ends.push_back({link.index, *seen.network});
        found.links.push_back(std::move(link));
    }
    found.routes = TRY(routes_of_network());
    return found;
}

Result<std::int32_t> number_of_network(int network) {
    struct Padded {
        rtgenmsg head{};
        std::uint8_t padding[3] = {};
    };
    LinkQuestion<Padded> question(RTM_GETNSID, 0);
    question.add(NETNSA_FD, &network, sizeof network);
    std::int32_t number = -1;
    CHECK_OK(ask_link(question, [&](const Padded&, LinkBytes attributes) {
        each_link_attribute(attributes, [&](int type, LinkBytes value) {
            if (type == NETNSA_NSID) number = link_value<std::int32_t>(value);
        });
    }));
    return number;
}

}  // namespace cairn::capture
