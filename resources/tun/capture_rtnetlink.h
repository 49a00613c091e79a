// Questions of rtnetlink(7) about network interfaces, their addresses and routes. Of the network namespace
// that the caller is in.
#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/schema/field.h"

namespace cairn::capture {

using LinkBytes = std::span<const char>;

[[nodiscard]] constexpr std::size_t link_aligned(std::size_t size) {
    return (size + 3) / 4 * 4;
}

template <class T>
[[nodiscard]] T link_value(LinkBytes bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), std::min(sizeof value, bytes.size()));
    return value;
}

[[nodiscard]] inline schema::Bytes link_bytes(LinkBytes value) {
    return {value.begin(), value.end()};
}

template <class Take>
void each_link_attribute(LinkBytes rest, const Take& take) {
    while (rest.size() >= sizeof(rtattr)) {
        const auto attribute = link_value<rtattr>(rest);
        if (attribute.rta_len < sizeof attribute || attribute.rta_len > rest.size()) return;
        take(attribute.rta_type & NLA_TYPE_MASK,
             rest.subspan(sizeof attribute, attribute.rta_len - sizeof attribute));
        rest = rest.subspan(std::min(rest.size(), link_aligned(attribute.rta_len)));
    }
}

// A question of rtnetlink(7): its head, and one attribute where the kernel is to choose by it.
template <class Head>
struct LinkQuestion {
    nlmsghdr header{};
    Head head{};
    rtattr attribute{};
    char value[IFNAMSIZ] = "";

    LinkQuestion(std::uint16_t type, std::uint16_t flags) {
        header.nlmsg_len = offsetof(LinkQuestion, attribute);
        header.nlmsg_type = type;
        header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    }
    void add(std::uint16_t type, const void* bytes, std::size_t size) {
        attribute = {static_cast<std::uint16_t>(sizeof attribute + size), type};
        std::memcpy(value, bytes, size);
        header.nlmsg_len += static_cast<std::uint32_t>(sizeof attribute + link_aligned(size));
    }
};

// Gives the head and the attributes of each answer to `take`. False: there is no such thing.
template <class Head, class Take>
[[nodiscard]] Result<bool> ask_link(const LinkQuestion<Head>& question, const Take& take) {
    const Fd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!netlink) return fail_errno("rtnetlink");
    // Since Linux 4.20: only what was asked for is in the answer, however many routes the machine has.
    const int strict = 1;
    ::setsockopt(netlink.get(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &strict, sizeof strict);
    if (::send(netlink.get(), &question, question.header.nlmsg_len, 0) < 0) return fail_errno("rtnetlink");
    const bool all = (question.header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    std::vector<char> answer(1 << 16);
    for (;;) {
        const ssize_t got = ::recv(netlink.get(), answer.data(), answer.size(), 0);
        if (got <= 0) return fail_errno("rtnetlink");
        LinkBytes rest(answer.data(), static_cast<std::size_t>(got));
        while (rest.size() >= sizeof(nlmsghdr)) {
            const auto header = link_value<nlmsghdr>(rest);
            if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) break;
            const LinkBytes body = rest.subspan(sizeof header, header.nlmsg_len - sizeof header);
            rest = rest.subspan(std::min(rest.size(), link_aligned(header.nlmsg_len)));
            if (header.nlmsg_type == NLMSG_DONE) return true;
            if (header.nlmsg_type == NLMSG_ERROR) {
                errno = -link_value<nlmsgerr>(body).error;
                if (errno == ENODEV) return false;
                return fail_errno("rtnetlink");
            }
            if (body.size() < sizeof(Head)) continue;
            take(link_value<Head>(body), body.subspan(std::min(body.size(), link_aligned(sizeof(Head)))));
            if (!all) return true;
        }
    }
}

}  // namespace cairn::capture
