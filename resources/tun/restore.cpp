// TUN/TAP: attached again. An interface that persists is there and is used as it is; one that went with its
// last descriptor is made again, with its number where nobody has that, its settings and its addresses.
#include "resources/namespace/restore.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <thread>

#include "resources/namespace/restore_links.h"
#include "resources/restore/opening.h"
#include "resources/tun/restore_address.h"

namespace cairn::restart {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Of those who had the interface and are still ending.
constexpr milliseconds patience{2000};

ifreq interface_request(const std::string& name) {
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    return request;
}

// As dev_valid_name() of net/core/dev.c; with a % in it the kernel would choose another name.
bool is_interface_name(const std::string& name) {
    return !name.empty() && name.size() < IFNAMSIZ && name != "." && name != ".." &&
           std::ranges::none_of(name, [](unsigned char c) {
               return c == '/' || c == ':' || c == '%' || c == 0 || std::isspace(c) != 0;
           });
}

Result<Fd> open_tun_device(std::int32_t flags) {
    Fd fd(::open("/dev/net/tun", (flags & O_ACCMODE) | O_CLOEXEC | O_NONBLOCK));
    if (!fd && (errno == ENOENT || errno == ENODEV || errno == ENXIO))
        return fail_code(ExitCode::refused, "there is no /dev/net/tun here (module tun)");
    if (!fd && (errno == EACCES || errno == EPERM))
        return fail_code(ExitCode::refused, "/dev/net/tun may not be opened: restart as root");
    if (!fd) return fail_errno("/dev/net/tun");
    return fd;
}

// The kernel attaches without those that it doesn't know, and says nothing.
Result<> check_features(int fd, const schema::Tun& saved) {
    std::uint32_t known = 0;
    if (::ioctl(fd, TUNGETFEATURES, &known) != 0) return fail_errno("TUNGETFEATURES");
    if ((saved.features & ~known) == 0) return {};
    return fail_code(ExitCode::refused,
                     "the TUN/TAP interface {} has features that this kernel hasn't (TUNSETIFF: {:#x})",
                     saved.name, saved.features & ~known);
}

Result<> refuse_attach(const schema::Tun& saved, bool there) {
    const int problem = errno;
    const std::string& name = saved.name;
    const std::string_view mode = schema::name_of(saved.mode);
    if (problem == EBUSY && there)
        return fail_code(
            ExitCode::refused,
            "another program is attached to the {} interface {}, which a restored program had; end "
            "it and restart again",
            mode, name);
    if (problem == EBUSY)
        return fail_code(
            ExitCode::refused,
            "there is a network interface {} already, and a restored program had made one of this "
            "name; end who has it, or remove it (ip link delete {}), and restart again",
            name, name);
    if (problem == EINVAL && there)
        return fail_code(
            ExitCode::refused,
            "the network interface {} is not what it was, a {} interface that a restored program "
            "had; remove it (ip link delete {}) and restart again",
            name, mode, name);
    if (problem == EPERM && there)
        return fail_code(
            ExitCode::refused,
            "the {} interface {}, which a restored program had, is somebody else's: restart as root, "
            "or as its owner",
            mode, name);
    if (problem == EPERM)
        return fail_code(
            ExitCode::refused,
            "the {} interface {}, which a restored program had, is gone, and only root can make it "
            "(CAP_NET_ADMIN): restart as root",
            mode, name);
    errno = problem;
    return fail_errno("TUNSETIFF {}", name);
}

// True: it has been made.
Result<bool> attach_tun(int fd, const schema::Tun& saved) {
    const auto deadline = steady_clock::now() + patience;
    for (;; std::this_thread::sleep_for(milliseconds(20))) {
        const bool there = saved.persistent && ::if_nametoindex(saved.name.c_str()) != 0;
        char other[IF_NAMESIZE];
        const unsigned index = static_cast<unsigned>(saved.index),
                       wanted = ::if_indextoname(index, other) == nullptr ? index : 0;
        // Where it may not be chosen (before Linux 3.8), it is noted below.
        if (!there) ::ioctl(fd, TUNSETIFINDEX, &wanted);
        ifreq request = interface_request(saved.name);
        request.ifr_flags =
            static_cast<short>(saved.features | (saved.mode == schema::TunMode::tap ? IFF_TAP : IFF_TUN) |
                               (saved.packet_info ? 0 : IFF_NO_PI) | (there ? 0 : IFF_TUN_EXCL));
        if (::ioctl(fd, TUNSETIFF, &request) == 0) return !there;
        if (errno == EBUSY && steady_clock::now() < deadline) continue;
        return std::unexpected(refuse_attach(saved, there).error());
    }
}

// Of what goes over the queue.
Result<> set_tun_queue(Opening& opening, int fd, const schema::Tun& saved) {
    const int little = saved.little_endian ? 1 : 0, big = 1;
    if (::ioctl(fd, TUNSETVNETHDRSZ, &saved.header_size) != 0)
        return fail_errno("{}: TUNSETVNETHDRSZ {}", saved.name, saved.header_size);
    if (::ioctl(fd, TUNSETVNETLE, &little) != 0) return fail_errno("{}: TUNSETVNETLE", saved.name);
    if (saved.big_endian && ::ioctl(fd, TUNSETVNETBE, &big) != 0)
        return fail_errno("{}: TUNSETVNETBE", saved.name);
    if (::ioctl(fd, TUNSETSNDBUF, &saved.send_buffer) != 0)
        return fail_errno("{}: TUNSETSNDBUF {}", saved.name, saved.send_buffer);
    if (::ioctl(fd, TUNSETOFFLOAD, static_cast<unsigned long>(saved.offloads)) != 0)
        opening.note("the interface {} can't leave the work {:#x} to its program (TUNSETOFFLOAD): {}",
                     saved.name, saved.offloads, std::strerror(errno));
    return {};
}

// What an interface can do without is no reason not to restart.
void set_interface(Opening& opening, int fd, const schema::Tun& saved) {
    const auto set = [&](bool done, std::string_view what) {
        if (!done)
            opening.note("the interface {} can't be given its {}: {}", saved.name, what,
                         std::strerror(errno));
    };
    if (saved.owner) set(::ioctl(fd, TUNSETOWNER, static_cast<unsigned long>(*saved.owner)) == 0, "owner");
    if (saved.group) set(::ioctl(fd, TUNSETGROUP, static_cast<unsigned long>(*saved.group)) == 0, "group");
    const Fd control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto configure = [&](unsigned long what, ifreq request) {
        return ::ioctl(control.get(), what, &request) == 0;
    };
    ifreq now = interface_request(saved.name);
    if (::ioctl(control.get(), SIOCGIFHWADDR, &now) != 0 || now.ifr_hwaddr.sa_family != saved.link_type)
        set(::ioctl(fd, TUNSETLINK, static_cast<unsigned long>(saved.link_type)) == 0, "type of link");
    if (saved.link_type == ARPHRD_ETHER && saved.hardware.size() == IFHWADDRLEN) {
        ifreq request = interface_request(saved.name);
        request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
        std::memcpy(request.ifr_hwaddr.sa_data, saved.hardware.data(), IFHWADDRLEN);
        set(configure(SIOCSIFHWADDR, request), "hardware address");
    }
    ifreq request = interface_request(saved.name);
    request.ifr_mtu = static_cast<int>(saved.mtu);
    set(configure(SIOCSIFMTU, request), "MTU");
    request.ifr_qlen = static_cast<int>(saved.queue_length);
    set(configure(SIOCSIFTXQLEN, request), "length of queue");
    const int carrier = saved.carrier ? 1 : 0;  // since Linux 5.0; without, there always is one
    set(::ioctl(fd, TUNSETCARRIER, &carrier) == 0 || saved.carrier, "state without a carrier");

    const unsigned index = ::if_nametoindex(saved.name.c_str());
    for (const schema::TunAddress& each : saved.addresses) {
        auto added = add_tun_address(index, each);
        if (!added) opening.note("the interface {}: {}", saved.name, added.error().what);
    }
    request.ifr_flags = static_cast<short>(saved.interface_flags);
    set(configure(SIOCSIFFLAGS, request), "flags");
    // One that comes up gets an address of the kernel's own for the link, which may be another each time.
    remove_other_addresses(saved.name, index, saved.addresses);
    settle_addresses(index, saved.addresses);
}

// In the network that it is of.
Result<Fd> open_tun_in_network(Opening& opening, const schema::Object& object, const schema::Tun& saved) {
    if (!is_interface_name(saved.name))
        return fail_code(ExitCode::damaged, "no network interface can be called \"{}\"", saved.name);
    Fd fd = TRY(open_tun_device(object.flags));
    CHECK_OK(check_features(fd.get(), saved));
    const bool made = TRY(attach_tun(fd.get(), saved));
    CHECK_OK(set_tun_queue(opening, fd.get(), saved));
    if (made) set_interface(opening, fd.get(), saved);
    if (made && saved.persistent && object.network < 0)
        opening.note(
            "the interface {}, which was to stay, is gone: it is made again, without its routes and what "
            "else was made of it",
            saved.name);
    if (const unsigned index = ::if_nametoindex(saved.name.c_str()); static_cast<int>(index) != saved.index)
        opening.note("the interface {} has the number {} now", saved.name, index);
    if (object.network >= 0) CHECK_OK(join_links(opening, object.network, saved.index));
    return fd;
}

}  // namespace

Result<Fd> open_tun(Opening& opening, const schema::Object& object, const schema::Tun& saved) {
    Result<Fd> made = Fd();
    CHECK_OK(in_own_space(opening, object.network, [&]() -> Result<> {
        made = open_tun_in_network(opening, object, saved);
        return {};
    }));
    return made;
}

// Only now: a restart that fails leaves no interface behind.
Result<> keep_interface(const schema::Object& object, int fd, AfterForest&) {
    const auto& saved = *object.get<schema::Tun>();
    if (saved.persistent && ::ioctl(fd, TUNSETPERSIST, 1UL) != 0)
        return fail_errno("{}: TUNSETPERSIST", saved.name);
    return {};
}

}  // namespace cairn::restart
