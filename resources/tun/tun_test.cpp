// TUN/TAP interfaces are captured and made again, attached to again, or refused, without a checkpoint; each
// test in a network namespace of its own, with which whatever it leaves goes. root: interfaces are for who
// has CAP_NET_ADMIN
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>

#include "resources/tun/capture_link.h"
#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

ifreq named_interface(const char* name, int flags = 0) {
    ifreq request{};
    std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    request.ifr_flags = static_cast<short>(flags);
    return request;
}

// -1, with errno: it isn't allowed, or isn't free.
int attach_interface(const char* name, int flags) {
    Fd fd(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
    ifreq request = named_interface(name, flags);
    return fd && ::ioctl(fd.get(), TUNSETIFF, &request) == 0 ? fd.release() : -1;
}

bool configure_interface(unsigned long what, ifreq request) {
    const Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return ::ioctl(fd.get(), what, &request) == 0;
}
bool bring_up(const char* name) {
    return configure_interface(SIOCSIFFLAGS, named_interface(name, IFF_UP));
}
void put_address(sockaddr& name, const char* text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(9);
    ::inet_pton(AF_INET, text, &address.sin_addr);
    std::memcpy(&name, &address, sizeof name);
}
bool add_address(const char* name, const char* address) {
    ifreq request = named_interface(name);
    put_address(request.ifr_addr, address);
    return configure_interface(SIOCSIFADDR, request);
}

template <class T>
bool tells(int fd, unsigned long what, T wanted) {
    T value{};
    return ::ioctl(fd, what, &value) == 0 && value == wanted;
}
bool is_attached(int fd, const std::string& name) {
    ifreq now{};
    return ::ioctl(fd, TUNGETIFF, &now) == 0 && now.ifr_name == name;
}

class ObjectsTun : public ::testing::Test {
  protected:
    void SetUp() override {
        home_.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
        away_ = ::unshare(CLONE_NEWNET) == 0;
        if (!away_ || !Fd(attach_interface("probe", IFF_TUN))) GTEST_SKIP() << "interfaces are not allowed";
    }
    void TearDown() override {
        if (!away_) return;
        ASSERT_EQ(::setns(home_.get(), CLONE_NEWNET), 0);
    }
    static void expect_note(const Checkpoint& checkpoint, const std::string& words) {
        EXPECT_TRUE(
            std::ranges::any_of(checkpoint.notes, [&](const auto& note) { return note.contains(words); }))
            << words << "\nis none of\n"
            << fmt::format("{}", fmt::join(checkpoint.notes, "\n"));
    }
    // What is noted of descriptors that this program has got from whoever started it is none of the test's.
    static void expect_no_note(const Checkpoint& checkpoint) {
        for (const std::string& note : checkpoint.notes) EXPECT_FALSE(note.contains("interface")) << note;
    }
    static void expect_no_restart(Checkpoint& checkpoint, const std::string& words) {
        const auto set = checkpoint.open();
        ASSERT_FALSE(set);
        EXPECT_EQ(set.error().code, ExitCode::refused);
        EXPECT_NE(set.error().what.find(words), std::string::npos) << set.error().what;
    }

  private:
    Fd home_;
    bool away_ = false;
};

TEST_F(ObjectsTun, MadeAgain) {
    Stopped process([] {
        at(120, attach_interface("tap7", IFF_TAP | IFF_VNET_HDR | IFF_MULTI_QUEUE));
        at(121, attach_interface("tun7", IFF_TUN | IFF_NO_PI));
        at(122, ::fcntl(121, F_DUPFD, 123));
        const int header = 12, yes = 1, no = 0, bytes = 70'000;
        CHILD_CHECK(::ioctl(120, TUNSETVNETHDRSZ, &header) == 0 && ::ioctl(120, TUNSETVNETLE, &yes) == 0);
        CHILD_CHECK(::ioctl(120, TUNSETSNDBUF, &bytes) == 0 && ::ioctl(120, TUNSETCARRIER, &no) == 0);
        CHILD_CHECK(::ioctl(120, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) == 0);
        CHILD_CHECK(::ioctl(120, TUNSETOWNER, 1234) == 0 && ::ioctl(120, TUNSETGROUP, 4321) == 0);
        CHILD_CHECK(::ioctl(121, TUNSETLINK, ARPHRD_PPP) == 0);
        ifreq request = named_interface("tap7");
        request.ifr_mtu = 1380;
        CHILD_CHECK(configure_interface(SIOCSIFMTU, request));
        CHILD_CHECK(add_address("tun7", "192.0.2.1") && bring_up("tun7"));
    });
    const auto tap = capture::find_tun_link("tap7"), tun = capture::find_tun_link("tun7");
    ASSERT_TRUE(tap && *tap && tun && *tun);
    const auto addresses = capture::tun_addresses((*tun)->index);
    ASSERT_TRUE(addresses);
    EXPECT_GE(addresses->size(), 1U);
    Checkpoint checkpoint;
    checkpoint.take(process);
    expect_no_note(checkpoint);
    checkpoint.restore([&](std::size_t) {
        CHILD_CHECK(is_attached(120, "tap7") && is_attached(121, "tun7") && same_description(121, 122));
        CHILD_CHECK(tells(120, TUNGETVNETHDRSZ, 12) && tells(120, TUNGETVNETLE, 1) &&
                    tells(120, TUNGETSNDBUF, 70'000) && tells(121, TUNGETVNETLE, 0));
        const auto tap_now = capture::find_tun_link("tap7"), tun_now = capture::find_tun_link("tun7");
        CHILD_CHECK(tap_now && *tap_now && tun_now && *tun_now);
        for (const auto& [now, before] : {std::pair{**tap_now, **tap}, {**tun_now, **tun}}) {
            CHILD_CHECK(now.index == before.index && now.type == before.type && now.flags == before.flags);
            CHILD_CHECK(now.mtu == before.mtu && now.queue_length == before.queue_length);
            CHILD_CHECK(now.hardware == before.hardware);
            CHILD_CHECK(now.carrier == before.carrier);
            CHILD_CHECK(now.queues == before.queues);
            CHILD_CHECK(now.packet_info == before.packet_info && now.persistent == before.persistent);
            CHILD_CHECK(now.owner == before.owner && now.group == before.group);
        }
        CHILD_CHECK((*tap_now)->owner == 1234 && !(*tap_now)->carrier && (*tun_now)->type == ARPHRD_PPP);
        const auto offloads = capture::tun_offloads("tap7");
        CHILD_CHECK(offloads && *offloads == (TUN_F_CSUM | TUN_F_TSO4));
        const auto addresses_now = capture::tun_addresses((*tun_now)->index);
        CHILD_CHECK(addresses_now && addresses_now->size() == addresses->size());
        for (std::size_t i = 0; i < addresses->size(); ++i)
            CHILD_CHECK(addresses_now->at(i).own == addresses->at(i).own &&
                        addresses_now->at(i).prefix == addresses->at(i).prefix &&
                        addresses_now->at(i).label == addresses->at(i).label);
    });
    expect_no_note(checkpoint);
    EXPECT_EQ(::if_nametoindex("tap7"), 0U) << "it is gone with its last descriptor";
}

TEST_F(ObjectsTun, WithAnotherNumber) {
    Stopped process([] { at(120, attach_interface("tun7", IFF_TUN)); });
    const unsigned number = ::if_nametoindex("tun7");
    Checkpoint checkpoint;
    checkpoint.take(process);
    const Fd other(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
    ifreq request = named_interface("tun8", IFF_TUN);
    ASSERT_EQ(::ioctl(other.get(), TUNSETIFINDEX, &number), 0);
    ASSERT_EQ(::ioctl(other.get(), TUNSETIFF, &request), 0);
    checkpoint.restore([](std::size_t) { CHILD_CHECK(is_attached(120, "tun7")); });
    expect_note(checkpoint, "the interface tun7 has the number ");
}

TEST_F(ObjectsTun, UnattachedIsAFile) {
    Stopped process([] { at(120, ::open("/dev/net/tun", O_RDWR)); });
    Checkpoint checkpoint;
    checkpoint.take(process);
    const auto all = checkpoint.objects();
    EXPECT_EQ(schema::kind_of(checkpoint.object_at(all, 120)), "file");
    checkpoint.restore([](std::size_t) {
        ifreq request = named_interface("tun7", IFF_TUN);
        CHILD_CHECK(!is_attached(120, "tun7") && ::ioctl(120, TUNSETIFF, &request) == 0);
    });
}

TEST_F(ObjectsTun, PersistentIsAttachedAgain) {
    Stopped process([] {
        at(120, attach_interface("tap7", IFF_TAP | IFF_NO_PI | IFF_VNET_HDR));
        CHILD_CHECK(::ioctl(120, TUNSETPERSIST, 1) == 0 && ::ioctl(120, TUNSETOFFLOAD, TUN_F_CSUM) == 0);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    // What others have made of it meanwhile is theirs.
    ifreq request = named_interface("tap7");
    request.ifr_mtu = 1380;
    ASSERT_TRUE(configure_interface(SIOCSIFMTU, request));
    const auto before = capture::find_tun_link("tap7");
    checkpoint.restore([](std::size_t) { CHILD_CHECK(is_attached(120, "tap7")); });
    const auto after = capture::find_tun_link("tap7");
    ASSERT_TRUE(before && *before && after && *after);
    EXPECT_EQ((*after)->index, (*before)->index);
    EXPECT_EQ((*after)->mtu, 1380U);
    EXPECT_TRUE((*after)->persistent);
    expect_no_note(checkpoint);

    // It is gone: made again, and stays.
    Fd fd(attach_interface("tap7", IFF_TAP | IFF_NO_PI));
    ASSERT_EQ(::ioctl(fd.get(), TUNSETPERSIST, 0), 0);
    fd.reset();
    ASSERT_EQ(::if_nametoindex("tap7"), 0U);
    checkpoint.restore([](std::size_t) { CHILD_CHECK(is_attached(120, "tap7")); });
    expect_note(
        checkpoint,
        "the interface tap7, which was to stay, is gone: it is made again, without its routes and what "
        "else was made of it");
    EXPECT_NE(::if_nametoindex("tap7"), 0U);
}

TEST_F(ObjectsTun, TakenIsRefused) {
    Stopped process([] { at(120, attach_interface("tun7", IFF_TUN)); });
    Stopped lasting([] {
        at(120, attach_interface("tap7", IFF_TAP));
        CHILD_CHECK(::ioctl(120, TUNSETPERSIST, 1) == 0);
    });
    Checkpoint made, attached;
    made.take(process);
    attached.take(lasting);
    const Fd taken(attach_interface("tun7", IFF_TUN));
    expect_no_restart(
        made,
        "there is a network interface tun7 already, and a restored program had made one of this "
        "name; end who has it, or remove it (ip link delete tun7), and restart again");
    Fd busy(attach_interface("tap7", IFF_TAP));
    expect_no_restart(
        attached,
        "another program is attached to the tap interface tap7, which a restored program had; end "
        "it and restart again");
    ASSERT_EQ(::ioctl(busy.get(), TUNSETPERSIST, 0), 0);
    busy.reset();
    busy.reset(attach_interface("tap7", IFF_TUN));
    expect_no_restart(
        attached,
        "the network interface tap7 is not what it was, a tap interface that a restored program "
        "had; remove it (ip link delete tap7) and restart again");
}

TEST_F(ObjectsTun, WhatCantBeSavedIsRefused) {
    const auto queues = [](bool off) {
        at(120, attach_interface("tap7", IFF_TAP | IFF_MULTI_QUEUE));
        ifreq request = named_interface("tap7", IFF_DETACH_QUEUE);
        if (off)
            CHILD_CHECK(::ioctl(120, TUNSETQUEUE, &request) == 0);
        else
            at(121, attach_interface("tap7", IFF_TAP | IFF_MULTI_QUEUE));
    };
    expect_refused(
        [&] { queues(false); },
        "is one of 2 queues of the TUN/TAP interface tap7 (IFF_MULTI_QUEUE), of which only one can be "
        "saved; close the others before a checkpoint");
    expect_refused(
        [&] { queues(true); },
        "is a queue of the TAP interface tap7 that is switched off (TUNSETQUEUE): this can't be saved; "
        "close it, or switch it on, before a checkpoint");
    for (const int flags : {IFF_TAP, IFF_TAP | IFF_NO_PI})
        expect_refused(
            [&] {
                at(120, attach_interface("tap7", flags));
                sock_filter nothing[] = {{BPF_RET | BPF_K, 0, 0, 0}};
                const sock_fprog filter{1, nothing};
                CHILD_CHECK(::ioctl(120, TUNATTACHFILTER, &filter) == 0);
            },
            "is a queue of the TAP interface tap7 with a filter (TUNATTACHFILTER), or that had one, which "
            "can't "
            "be read; close it before a checkpoint");
}

TEST_F(ObjectsTun, WhatIsLeftOutIsNoted) {
    const unsigned long make_bridge = SIOCBRADDBR, join_bridge = SIOCBRADDIF;
    const Fd control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const bool bridge = ::ioctl(control.get(), make_bridge, "br7") == 0;
    Stopped process([] {
        at(120, attach_interface("tun7", IFF_TUN | IFF_NO_PI));
        CHILD_CHECK(add_address("tun7", "192.0.2.1") && bring_up("tun7"));
        at(121, attach_interface("tap7", IFF_TAP));
    });
    rtentry route{};
    put_address(route.rt_dst, "198.51.100.0");
    put_address(route.rt_genmask, "255.255.255.0");
    char device[] = "tun7";
    route.rt_dev = device;
    route.rt_flags = RTF_UP;
    ASSERT_EQ(::ioctl(control.get(), SIOCADDRT, &route), 0);
    sockaddr to{};
    put_address(to, "198.51.100.1");
    ASSERT_EQ(::sendto(control.get(), "x", 1, 0, &to, sizeof to), 1);
    ifreq port = named_interface("br7");
    port.ifr_ifindex = static_cast<int>(::if_nametoindex("tap7"));
    const bool joined = bridge && ::ioctl(control.get(), join_bridge, &port) == 0;
    EXPECT_EQ(joined, bridge);
    Checkpoint checkpoint;
    checkpoint.take(process);
    expect_note(
        checkpoint,
        "descriptor 120 made the interface tun7, through which 1 route has been set: after a restart it "
        "has none, until somebody sets them again");
    expect_note(checkpoint, "descriptor 120 is a TUN/TAP queue with packets waiting: they are left out");
    if (joined)
        expect_note(
            checkpoint,
            "descriptor 121 made the interface tap7, which is a port of br7: after a restart it is not, "
            "until somebody adds it (ip link set tap7 master br7)");
}

TEST_F(ObjectsTun, ANameThatIsNoneIsDamage) {
    Stopped process([] { at(120, attach_interface("tun7", IFF_TUN)); });
    Checkpoint checkpoint;
    checkpoint.take(process);
    auto image = open_objects_image(checkpoint.folder / "objects");
    ASSERT_TRUE(image);
    for (const std::string name : {"", "../tun", "tun%d", "a-name-of-16-byt", "a b"}) {
        for (schema::Object& each : image->objects.objects)
            if (auto* tun = std::get_if<schema::Tun>(&each.what)) tun->name = name;
        const auto room =
            find_descriptor_room(checkpoint.processes, image->objects, raise_descriptor_limit());
        ASSERT_TRUE(room);
        restart::ObjectSetOptions options;
        options.floor = room->floor;
        options.width = room->width;
        const auto set =
            restart::ObjectSet::open_all(image->objects, image->reader, options, checkpoint.notes);
        ASSERT_FALSE(set) << name;
        EXPECT_EQ(set.error().code, ExitCode::damaged) << set.error().what;
    }
}

}  // namespace
}  // namespace cairn::test
