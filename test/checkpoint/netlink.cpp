// A program that asks the kernel by netlink all the time: a checkpoint between question and answer, or in the
// middle of a long one, must not leave it waiting for what nobody will say.
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "support.h"

namespace {

std::atomic<long> asked{0};

// In pieces that are read one by one: the kernel makes each when the one before it has been taken.
void ask_all_the_time() {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    CHECK(fd >= 0);
    alignas(nlmsghdr) static char answer[1 << 16];
    for (unsigned number = 1;; ++number, ++asked) {
        struct {
            nlmsghdr header;
            ifaddrmsg body;
        } request{};
        request.header = {sizeof request, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, number, 0};
        CHECK(send(fd, &request, sizeof request, 0) == sizeof request);
        for (bool more = true; more;) {
            const ssize_t got = recv(fd, answer, sizeof answer, 0);
            CHECK(got > 0);
            for (ssize_t at = 0; more && at < got;) {
                nlmsghdr header{};
                memcpy(&header, answer + at, sizeof header);
                CHECK(header.nlmsg_seq == number && header.nlmsg_type != NLMSG_ERROR && header.nlmsg_len > 0);
                more = header.nlmsg_type != NLMSG_DONE;
                at += static_cast<ssize_t>((header.nlmsg_len + 3) / 4 * 4);
            }
        }
        test::nap(1);
    }
}

}  // namespace

int main() {
    std::thread(ask_all_the_time).detach();
    // News that nobody reads are no answer: they don't hold up a checkpoint.
    const int news = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    sockaddr_nl groups{};
    groups.nl_family = AF_NETLINK;
    groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR;
    CHECK(bind(news, reinterpret_cast<sockaddr*>(&groups), sizeof groups) == 0);
    test::serve([&](bool) {
        const long before = asked;
        for (int tries = 0; asked < before + 3; ++tries) {
            CHECK(tries < 6000);  // 30 s
            test::nap(5);
        }
        sockaddr_nl name{};
        socklen_t length = sizeof name;
        CHECK(getsockname(news, reinterpret_cast<sockaddr*>(&name), &length) == 0);
        CHECK(name.nl_groups == groups.nl_groups);
    });
}
