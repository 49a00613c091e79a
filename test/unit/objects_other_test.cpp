// Kinds of descriptors with small schemas, captured and restored without a checkpoint.
#include <linux/netlink.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

TEST(ObjectsOther, SignalfdTakesItsSignals) {
    Stopped process([] {
        sigset_t mask;
        ::sigemptyset(&mask);
        ::sigaddset(&mask, SIGUSR2);
        at(120, ::signalfd(-1, &mask, 0));
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([](std::size_t) {
        sigset_t mask;
        ::sigemptyset(&mask);
        ::sigaddset(&mask, SIGUSR2);
        ::sigprocmask(SIG_BLOCK, &mask, nullptr);
        ::raise(SIGUSR2);
        signalfd_siginfo info{};
        CHILD_CHECK(readable(120) && ::read(120, &info, sizeof info) == sizeof info &&
                    info.ssi_signo == SIGUSR2);
    });
}

TEST(ObjectsOther, TimerfdGoesOnWhereItWas) {
    const auto now_ns = [] {
        timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1'000'000'000 + now.tv_nsec;
    };
    const auto begin = now_ns();
    Stopped process([] {
        at(120, ::timerfd_create(CLOCK_MONOTONIC, 0));
        const itimerspec long_one{{3, 0}, {100, 0}};
        CHILD_CHECK(::timerfd_settime(120, 0, &long_one, nullptr) == 0);
        at(121, ::timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK));
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        const itimerspec past{{0, 0}, {now.tv_sec - 5, 0}};
        CHILD_CHECK(::timerfd_settime(121, TFD_TIMER_ABSTIME, &past, nullptr) == 0);
        at(122, ::timerfd_create(CLOCK_BOOTTIME, 0));
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    const auto taken = now_ns();
    ::usleep(200'000);
    const auto again = now_ns();
    checkpoint.restore([&](std::size_t) {
        itimerspec now{};
        CHILD_CHECK(::timerfd_gettime(120, &now) == 0 && now.it_interval.tv_sec == 3);
        // What lies between the checkpoint and the restart doesn't count, however long the rest has taken.
        const auto left = now.it_value.tv_sec * 1'000'000'000 + now.it_value.tv_nsec;
        CHILD_CHECK(left < 100'000'000'000 && left >= 100'000'000'000 - (taken - begin) - (now_ns() - again));
        std::uint64_t ticks = 0;
        CHILD_CHECK(::read(121, &ticks, 8) == 8 && ticks == 1);
        CHILD_CHECK(::timerfd_gettime(122, &now) == 0 && now.it_value.tv_sec == 0 &&
                    now.it_value.tv_nsec == 0);
    });
}

TEST(ObjectsOther, EpollWithItsTargets) {
    Stopped process([] {
        at(120, ::epoll_create1(0));
        int ends[2];
        CHILD_CHECK(::pipe(ends) == 0);
        at(121, ends[0]);
        at(122, ends[1]);
        at(123, ::eventfd(1, 0));
        epoll_event event{EPOLLIN, {.u64 = 0x1122334455667788}};
        CHILD_CHECK(::epoll_ctl(120, EPOLL_CTL_ADD, 121, &event) == 0);
        event = {EPOLLIN | EPOLLET, {.u64 = 5}};
        // Registered under a number that is another file's by now.
        CHILD_CHECK(::dup2(123, 124) == 124 && ::epoll_ctl(120, EPOLL_CTL_ADD, 124, &event) == 0);
        CHILD_CHECK(::dup2(122, 124) == 124);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([](std::size_t) {
        epoll_event events[4];
        CHILD_CHECK(::epoll_wait(120, events, 4, 0) == 1 && events[0].data.u64 == 5);
        CHILD_CHECK(::epoll_wait(120, events, 4, 0) == 0);
        CHILD_CHECK(same_description(122, 124) && ::write(124, "x", 1) == 1);
        CHILD_CHECK(::epoll_wait(120, events, 4, 0) == 1 && events[0].data.u64 == 0x1122334455667788);
        // Known under the old number.
        CHILD_CHECK(::epoll_ctl(120, EPOLL_CTL_DEL, 121, nullptr) == 0);
        CHILD_CHECK(::epoll_wait(120, events, 4, 0) == 0);
    });
}

TEST(ObjectsOther, PidfdOfAMemberAndOfOneThatHasGone) {
    Stopped process([] {
        at(120, static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
        const pid_t child = ::fork();
        if (child == 0) std::_Exit(0);
        at(121, static_cast<int>(::syscall(SYS_pidfd_open, child, O_NONBLOCK)));
        ::waitpid(child, nullptr, 0);
        at(122, static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0)));
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    EXPECT_NE(fmt::format("{}", fmt::join(checkpoint.notes, "\n")).find("is no member"), std::string::npos);
    checkpoint.restore([](std::size_t) {
        CHILD_CHECK(::syscall(SYS_pidfd_send_signal, 120, 0, nullptr, 0) == 0 && !readable(120));
        for (const int gone : {121, 122})
            CHILD_CHECK(::syscall(SYS_pidfd_send_signal, gone, 0, nullptr, 0) == -1 && errno == ESRCH &&
                        readable(gone));
    });
}

class ObjectsUnixSocket : public ::testing::TestWithParam<int> {};

TEST_P(ObjectsUnixSocket, PairWithDataBothWays) {
    const int style = GetParam();
    int sockets[2];
    ASSERT_EQ(::socketpair(AF_UNIX, style | SOCK_CLOEXEC, 0, sockets), 0);
    Fd a(sockets[0]), b(sockets[1]);
    Stopped process([&] {
        at(120, ::dup(sockets[0]));
        at(121, ::dup(sockets[1]));
        CHILD_CHECK(::send(120, "first", 5, 0) == 5 && ::send(120, "second", 6, 0) == 6);
        CHILD_CHECK(::send(121, "back", 4, 0) == 4);
        const timeval timeout{3, 500'000};
        CHILD_CHECK(::setsockopt(121, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
        CHILD_CHECK(::fcntl(120, F_SETFL, O_NONBLOCK) == 0);
    });
    const auto check = [style] {
        char text[64] = {};
        const bool stream = style == SOCK_STREAM;
        CHILD_CHECK(::recv(121, text, sizeof text, MSG_DONTWAIT) == (stream ? 11 : 5));
        CHILD_CHECK(std::string(text) == (stream ? "firstsecond" : "first"));
        CHILD_CHECK(::recv(121, text, sizeof text, MSG_DONTWAIT) == (stream ? -1 : 6));
        CHILD_CHECK(::recv(120, text, sizeof text, 0) == 4 && ::recv(120, text, sizeof text, 0) == -1);
        timeval timeout{};
        socklen_t length = sizeof timeout;
        CHILD_CHECK(::getsockopt(121, SOL_SOCKET, SO_RCVTIMEO, &timeout, &length) == 0);
        CHILD_CHECK(timeout.tv_sec == 3 && timeout.tv_usec == 500'000);
        CHILD_CHECK(::send(121, "x", 1, 0) == 1 && ::recv(120, text, sizeof text, 0) == 1);
    };
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) { check(); });
    // What was looked at is still there.
    ::dup2(a.get(), 120);
    ::dup2(b.get(), 121);
    check();
    ::close(120);
    ::close(121);
}
INSTANTIATE_TEST_SUITE_P(Styles, ObjectsUnixSocket,
                         ::testing::Values(SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET));

TEST(ObjectsOther, UnixSocketsWithoutAPeerHere) {
    int sockets[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    const Fd a(sockets[0]), b(sockets[1]);
    Stopped process([&] {
        at(120, ::dup(sockets[0]));  // its peer is the test's process
        ::close(sockets[0]);
        int gone[2];
        CHILD_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, gone) == 0);
        CHILD_CHECK(::send(gone[0], "rest", 4, 0) == 4 && ::close(gone[0]) == 0);
        at(121, gone[1]);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([](std::size_t) {
        char text[64] = {};
        CHILD_CHECK(::recv(120, text, sizeof text, MSG_DONTWAIT) == 0);
        CHILD_CHECK(::recv(121, text, sizeof text, MSG_DONTWAIT) == 4 && std::string(text) == "rest");
        CHILD_CHECK(::recv(121, text, sizeof text, MSG_DONTWAIT) == 0);
        CHILD_CHECK(::send(121, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    });
}

TEST(ObjectsOther, WhatCantBeSavedIsRefusedByName) {
    Stopped process([] { at(120, ::socket(AF_NETLINK, SOCK_RAW, NETLINK_FIB_LOOKUP)); });
    capture::ObjectTable table;
    const auto descriptors = table.descriptors(process.holder());
    ASSERT_FALSE(descriptors);
    EXPECT_EQ(descriptors.error().code, ExitCode::refused);
    const std::string expected =
        fmt::format("{}: descriptor 120: is a netlink socket of protocol 10", proc::label(process.pid()));
    EXPECT_EQ(descriptors.error().what.substr(0, expected.size()), expected);
}

}  // namespace
}  // namespace cairn::test
