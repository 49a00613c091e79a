#include "resources/tun/capture_link.h"

#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "common/fd.h"
#include "resources/tun/capture_rtnetlink.h"

namespace cairn::capture {
namespace {

void read_tun_data(LinkBytes data, TunLink& found) {
    each_link_attribute(data, [&](int type, LinkBytes value) {
        switch (type) {
            case IFLA_TUN_OWNER:
                found.owner = link_value<std::uint32_t>(value);
                break;
            case IFLA_TUN_GROUP:
                found.group = link_value<std::uint32_t>(value);
                break;
            case IFLA_TUN_PI:
                found.packet_info = link_value<std::uint8_t>(value) != 0;
                break;
            case IFLA_TUN_PERSIST:
                found.persistent = link_value<std::uint8_t>(value) != 0;
                break;
            case IFLA_TUN_NUM_QUEUES:
                found.queues = link_value<std::uint32_t>(value);
                break;
            case IFLA_TUN_NUM_DISABLED_QUEUES:
                found.queues_off = link_value<std::uint32_t>(value);
                break;
            default:
                break;
        }
    });
}

void read_tun_link(LinkBytes attributes, TunLink& found) {
    each_link_attribute(attributes, [&](int type, LinkBytes value) {
        switch (type) {
            case IFLA_MTU:
                found.mtu = link_value<std::uint32_t>(value);
                break;
            case IFLA_TXQLEN:
                found.queue_length = link_value<std::uint32_t>(value);
                break;
            case IFLA_ADDRESS:
                found.hardware = link_bytes(value);
                break;
            case IFLA_CARRIER:
                found.carrier = link_value<std::uint8_t>(value) != 0;
                break;
            case IFLA_MASTER:
                found.master = link_value<int>(value);
                break;
            case IFLA_XDP:
                each_link_attribute(value, [&](int part, LinkBytes attached) {
                    if (part == IFLA_XDP_ATTACHED) found.program = link_value<std::uint8_t>(attached) != 0;
                });
                break;
            case IFLA_LINKINFO:
                each_link_attribute(value, [&](int part, LinkBytes info) {
                    if (part == IFLA_INFO_KIND)
                        found.is_tun = std::string_view(info.data(), info.size()).starts_with("tun");
                    if (part == IFLA_INFO_DATA && found.is_tun) read_tun_data(info, found);
                });
                break;
            default:
                break;
        }
    });
}

// What TUNSETOFFLOAD makes the interface have (set_offload() of drivers/net/tun.c), by ethtool's names.
struct Offload {
    std::string_view name;
    std::uint32_t bits;
};
constexpr std::uint32_t segmented_udp = 0x20 | 0x40;  // TUN_F_USO4, TUN_F_USO6: one feature. Since Linux 6.2
constexpr Offload known_offloads[] = {
    {"tx-checksum-ip-generic", TUN_F_CSUM},
    {"tx-tcp-segmentation", TUN_F_TSO4},
    {"tx-tcp6-segmentation", TUN_F_TSO6},
    {"tx-tcp-ecn-segmentation", TUN_F_TSO_ECN},
    {"tx-udp-segmentation", segmented_udp},
    // TUN_F_UDP_TUNNEL_GSO, TUN_F_UDP_TUNNEL_GSO_CSUM: since Linux 6.17
    {"tx-udp_tnl-segmentation", 0x80},
    {"tx-udp_tnl-csum-segmentation", 0x100},
};

// The answer is written behind the question, and over it.
Result<> ask_ethtool(int fd, const std::string& name, const void* question, std::size_t size,
                     std::vector<char>& answer) {
    std::memcpy(answer.data(), question, size);
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = answer.data();
    if (::ioctl(fd, SIOCETHTOOL, &request) != 0) return fail_errno("ethtool: {}", name);
    return {};
}

}  // namespace

Result<std::optional<TunLink>> find_tun_link(const std::string& name) {
    LinkQuestion<ifinfomsg> question(RTM_GETLINK, 0);
    question.add(IFLA_IFNAME, name.c_str(), name.size() + 1);
    TunLink found;
    const bool there = TRY(ask_link(question, [&](const ifinfomsg& head, LinkBytes attributes) {
        found.index = head.ifi_index;
        found.type = head.ifi_type;
        found.flags = head.ifi_flags;
        read_tun_link(attributes, found);
    }));
    if (!there) return std::nullopt;
    return found;
}

Result<std::vector<schema::TunAddress>> tun_addresses(int index) {
    LinkQuestion<ifaddrmsg> question(RTM_GETADDR, NLM_F_DUMP);
    question.head.ifa_index = static_cast<unsigned>(index);
    std::vector<schema::TunAddress> found;
    CHECK_OK(ask_link(question, [&](const ifaddrmsg& head, LinkBytes attributes) {
        if (static_cast<int>(head.ifa_index) != index) return;
        schema::TunAddress& each = found.emplace_back();
        each.family = head.ifa_family;
        each.prefix = head.ifa_prefixlen;
        each.scope = head.ifa_scope;
        each.flags = head.ifa_flags;
        each_link_attribute(attributes, [&](int type, LinkBytes value) {
            switch (type) {
                case IFA_LOCAL:
                    each.own = link_bytes(value);
                    break;
                case IFA_ADDRESS:
                    each.peer = link_bytes(value);
                    break;
                case IFA_BROADCAST:
                    each.broadcast = link_bytes(value);
                    break;
                case IFA_LABEL:
                    each.label.assign(value.data(), ::strnlen(value.data(), value.size()));
                    break;
                case IFA_FLAGS:
                    each.flags = link_value<std::uint32_t>(value);
                    break;
                case IFA_CACHEINFO:
                    each.valid = link_value<ifa_cacheinfo>(value).ifa_valid;
                    each.preferred = link_value<ifa_cacheinfo>(value).ifa_prefered;
                    break;
                default:
                    break;
            }
        });
        if (each.own.empty()) each.own = each.peer;  // of IPv6, where there is no other end
        each.flags &= ~std::uint32_t{IFA_F_TENTATIVE | IFA_F_OPTIMISTIC};  // nobody else has been heard yet
    }));
    return found;
}

Result<int> count_tun_routes(int index) {
    int count = 0;
    for (const int family : {AF_INET, AF_INET6}) {
        LinkQuestion<rtmsg> question(RTM_GETROUTE, NLM_F_DUMP);
        question.head.rtm_family = static_cast<std::uint8_t>(family);
        question.add(RTA_OIF, &index, sizeof index);
        auto asked = ask_link(question, [&](const rtmsg& head, LinkBytes attributes) {
            if (head.rtm_protocol == RTPROT_KERNEL || head.rtm_protocol == RTPROT_RA) return;
            each_link_attribute(attributes, [&](int type, LinkBytes value) {
                if (type == RTA_OIF && link_value<int>(value) == index) ++count;
            });
        });
        // A kernel without IPv6 knows no routes of it.
        if (!asked && family == AF_INET) return std::unexpected(std::move(asked.error()));
    }
    return count;
}

Result<std::uint32_t> tun_offloads(const std::string& name) {
    const Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd) return fail_errno("ethtool");
    std::vector<char> counted(sizeof(ethtool_sset_info) + sizeof(std::uint32_t));
    ethtool_sset_info sets{};
    sets.cmd = ETHTOOL_GSSET_INFO;
    sets.sset_mask = 1ULL << ETH_SS_FEATURES;
    CHECK_OK(ask_ethtool(fd.get(), name, &sets, sizeof sets, counted));
    const auto count = link_value<std::uint32_t>(LinkBytes(counted).subspan(sizeof sets));
    const std::uint32_t blocks = (count + 31) / 32;

    std::vector<char> names(sizeof(ethtool_gstrings) + std::size_t{count} * ETH_GSTRING_LEN);
    const std::uint32_t strings[] = {ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count};  // of struct ethtool_gstrings
    CHECK_OK(ask_ethtool(fd.get(), name, &strings, sizeof strings, names));

    std::vector<char> features(sizeof(ethtool_gfeatures) + blocks * sizeof(ethtool_get_features_block));
    const std::uint32_t asked[] = {ETHTOOL_GFEATURES, blocks};  // the head of struct ethtool_gfeatures
    CHECK_OK(ask_ethtool(fd.get(), name, &asked, sizeof asked, features));

    std::uint32_t found = 0;
    const char* text = names.data() + sizeof(ethtool_gstrings);
    const LinkBytes bits = LinkBytes(features).subspan(sizeof(ethtool_gfeatures));
    for (std::size_t i = 0; i < count; ++i) {
        const auto block =
            link_value<ethtool_get_features_block>(bits.subspan(i / 32 * sizeof(ethtool_get_features_block)));
        if ((block.active >> i % 32 & 1) == 0) continue;
        const char* each = text + i * ETH_GSTRING_LEN;
        const std::string_view called(each, ::strnlen(each, ETH_GSTRING_LEN));
        for (const Offload& offload : known_offloads)
            if (called == offload.name) found |= offload.bits;
    }
    return found;
}

}  // namespace cairn::capture
