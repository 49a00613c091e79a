// Netlink sockets: bound to the port that they had, if it is free, and members of their groups again.
#include "resources/socket/restore.h"

#include <linux/netlink.h>

#include <cstring>

#include "resources/namespace/restore.h"
#include "resources/restore/opening.h"

namespace cairn::restart {

Result<Fd> open_netlink_socket(Opening& opening, const schema::Object& object, const schema::Netlink& saved) {
    Fd fd;
    CHECK_OK(in_own_space(opening, object.network, [&]() -> Result<> {
        fd.reset(::socket(AF_NETLINK, saved.style | SOCK_CLOEXEC, saved.protocol));
        if (!fd) return fail_errno("netlink socket");
        return {};
    }));
    sockaddr_nl name{};
    std::memcpy(&name, saved.own.data(), std::min(saved.own.size(), sizeof name));
    name.nl_groups = 0;
    // A port of 0: it was never bound. Most programs have got their process id for one.
    if (name.nl_pid != 0 && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
        name.nl_pid = 0;
        if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
            return fail_errno("netlink socket: bind");
        opening.note("a netlink socket has another port than before: the old one is taken");
    }
    sockaddr_nl to{};
    std::memcpy(&to, saved.peer_name.data(), std::min(saved.peer_name.size(), sizeof to));
    if (to.nl_pid != 0 || to.nl_groups != 0)
        (void)!::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    for (std::size_t bit = 0; bit < saved.groups.size() * 8; ++bit) {
        if ((saved.groups[bit / 8] >> bit % 8 & 1) == 0) continue;
        const int group = static_cast<int>(bit) + 1;
        if (::setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0)
            opening.note("a netlink socket can't join group {} again: {}", group, std::strerror(errno));
    }
    set_socket_options(fd.get(), saved.options, schema::OptionMoment::last);
    set_buffers(fd.get(), saved.options);
    return fd;
}

}  // namespace cairn::restart
