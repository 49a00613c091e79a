// A program that asks the kernel by netlink all the time: a checkpoint between question and answer, or in the
// middle of a long one, must not leave it waiting for what nobody will say.
// ci: exact user
// rain: soak
// narrow: none
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support.h"

namespace {

constexpr unsigned news_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR;
std::atomic<long> asked[2];

int open_route(unsigned groups) {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    sockaddr_nl name{};
    name.nl_family = AF_NETLINK;
    name.nl_groups = groups;
    CHECK(fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    return fd;
}

sockaddr_nl name_of(int fd) {
    sockaddr_nl name{};
    socklen_t length = sizeof name;
    CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0);
    return name;
}

// Who is told of news may be told that some were lost (ENOBUFS): others make and remove interfaces meanwhile.
// An answer that the kernel makes as it is read isn't lost by that.
bool lost_news(ssize_t got, unsigned groups) {
    return got < 0 && errno == ENOBUFS && groups != 0;
}

// There has to be room for the beginning of an answer.
void read_news(int fd, std::vector<char>& news) {
    while (recv(fd, news.data(), news.size(), MSG_DONTWAIT) > 0 || errno == ENOBUFS) {
    }
}

// In pieces that are read one by one: the kernel makes each when the one before it has been taken. With
// groups, news of others lie in between.
void ask_all_the_time(unsigned groups) {
    const int fd = open_route(groups);
    std::vector<char> answer(1 << 16);
    for (unsigned number = 1;; ++number, ++asked[groups == 0 ? 0 : 1]) {
        struct {
            nlmsghdr header;
            ifaddrmsg body;
        } request{};
        request.header = {sizeof request, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, number, 0};
        if (groups != 0) read_news(fd, answer);
        CHECK(send(fd, &request, sizeof request, 0) == sizeof request);
        for (bool more = true; more;) {
            const ssize_t got = recv(fd, answer.data(), answer.size(), 0);
            if (lost_news(got, groups)) continue;
            CHECK(got > 0);
            for (ssize_t at = 0; more && at < got;) {
                nlmsghdr header{};
                memcpy(&header, answer.data() + at, sizeof header);
                CHECK(header.nlmsg_type != NLMSG_ERROR && header.nlmsg_len > 0);
                const bool ours = header.nlmsg_seq == number && header.nlmsg_pid == name_of(fd).nl_pid;
                CHECK(ours || groups != 0);
                more = !ours || header.nlmsg_type != NLMSG_DONE;
                at += static_cast<ssize_t>((header.nlmsg_len + 3) / 4 * 4);
            }
        }
        test::nap(1);
    }
}

}  // namespace

int main() {
    std::thread(ask_all_the_time, 0).detach();
    std::thread(ask_all_the_time, news_groups).detach();
    // News that nobody reads are no answer: they don't hold up a checkpoint.
    const int news = open_route(news_groups);
    test::serve([&](bool) {
        for (auto& number : asked) {
            const long before = number;
            for (int tries = 0; number < before + 3; ++tries) {
                CHECK(tries < 6000);  // 30 s
                test::nap(5);
            }
        }
        CHECK(name_of(news).nl_groups == news_groups);
    });
}
