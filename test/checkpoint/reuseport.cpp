// SO_REUSEPORT: several listening TCP sockets, and several UDP sockets, at one port, in several processes;
// with connections that nobody has accepted, datagrams that nobody has read, and an accepted connection.
// ci: exact user
// network: own (the ports that it has had must be free at its restart)
// rain: soak
// narrow: none
// heirs: none
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cstdint>
#include <vector>

#include "support.h"

namespace {

constexpr int together = 3, callers = 12;

struct Name {
    sockaddr_storage address{};
    socklen_t length = 0;
    [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
};
Name loopback(int family) {
    Name name;
    name.address.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET) {
        auto& address = reinterpret_cast<sockaddr_in&>(name.address);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        name.length = sizeof address;
    } else {
        auto& address = reinterpret_cast<sockaddr_in6&>(name.address);
        address.sin6_addr = in6addr_loopback;
        name.length = sizeof address;
    }
    return name;
}

// All at one port, which the first of them gets from the kernel.
using Group = std::array<int, together>;
Group group_of(int family, int type, Name& name) {
    name = loopback(family);
    Group group{};
    for (int& fd : group) {
        fd = socket(family, type, 0);
        CHECK(fd >= 0);
        test::set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
        CHECK(bind(fd, name.get(), name.length) == 0 && getsockname(fd, name.get(), &name.length) == 0);
    }
    return group;
}
void still_together(const Group& group) {
    for (const int fd : group) CHECK(test::option(fd, SOL_SOCKET, SO_REUSEPORT) == 1);
}

// Which of them has something; -1: none.
int ready(const Group& group, int patience_ms) {
    std::array<pollfd, together> polled{};
    for (std::size_t i = 0; i < group.size(); ++i) polled[i] = {group[i], POLLIN, 0};
    if (poll(polled.data(), polled.size(), patience_ms) <= 0) return -1;
    for (const pollfd& each : polled)
        if ((each.revents & POLLIN) != 0) return each.fd;
    return -1;
}

void still_calls(int fd, Name name) {
    Name peer;
    peer.length = sizeof peer.address;
    CHECK(getpeername(fd, peer.get(), &peer.length) == 0 && peer.length == name.length);
    const auto port = [](Name& of) {
        std::uint16_t number = 0;
        std::memcpy(&number, of.get()->sa_data, sizeof number);
        return number;
    };
    CHECK(port(peer) == port(name));
}

void talk(int from, int to) {
    char byte = 0;
    CHECK(send(from, "x", 1, MSG_NOSIGNAL) == 1 && recv(to, &byte, 1, 0) == 1 && byte == 'x');
}

test::Check listeners(int family) {
    Name name;
    const Group group = group_of(family, SOCK_STREAM, name);
    for (const int fd : group) CHECK(listen(fd, 2 * callers) == 0);
    const auto call = [name] {
        Name to = name;
        const int fd = socket(name.address.ss_family, SOCK_STREAM, 0);
        CHECK(fd >= 0 && connect(fd, to.get(), to.length) == 0);
        return fd;
    };
    const int caller = call();
    const int accepted = accept(ready(group, 10'000), nullptr, nullptr);
    CHECK(accepted >= 0);
    std::vector<int> waiting;
    for (int i = 0; i < callers; ++i) waiting.push_back(call());
    return [=](bool) mutable {
        still_together(group);
        talk(caller, accepted);
        talk(accepted, caller);
        for (int i = 0; i < callers; ++i) waiting.push_back(call());
        std::size_t count = 0;
        for (int fd = -1; count < waiting.size() && (fd = ready(group, 10'000)) >= 0; ++count) {
            const int one = accept(fd, nullptr, nullptr);
            CHECK(one >= 0 && send(one, "y", 1, MSG_NOSIGNAL) == 1 && close(one) == 0);
        }
        CHECK(count == waiting.size() && ready(group, 0) == -1);
        for (const int fd : waiting) {
            char byte = 0;
            still_calls(fd, name);
            CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'y' && recv(fd, &byte, 1, 0) == 0 && close(fd) == 0);
        }
        waiting.clear();
        for (int i = 0; i < callers; ++i) waiting.push_back(call());
    };
}

test::Check receivers(int family) {
    Name name;
    const Group group = group_of(family, SOCK_DGRAM, name);
    std::vector<int> senders;
    for (int i = 0; i < callers; ++i) {
        senders.push_back(socket(family, SOCK_DGRAM, 0));
        CHECK(senders.back() >= 0 && connect(senders.back(), name.get(), name.length) == 0);
    }
    const auto send_all = [senders] {
        for (const int fd : senders) CHECK(send(fd, "z", 1, 0) == 1);
    };
    const auto read_all = [group] {
        int count = 0;
        for (int fd = -1; count < callers && (fd = ready(group, 10'000)) >= 0; ++count) {
            char byte = 0;
            CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'z');
        }
        CHECK(count == callers && ready(group, 0) == -1);
    };
    send_all();
    return [=](bool) {
        still_together(group);
        read_all();
        send_all();
        read_all();
        send_all();
    };
}

// One more of the group, in a process of its own that answers.
test::Check other_processes() {
    Name name;
    const Group group = group_of(AF_INET, SOCK_DGRAM, name);
    std::vector<pid_t> children;
    for (const int fd : group) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child > 0) {
            children.push_back(child);
            continue;
        }
        for (const int other : group)
            if (other != fd) close(other);
        for (;;) {
            Name from;
            from.length = sizeof from.address;
            char byte = 0;
            CHECK(recvfrom(fd, &byte, 1, 0, from.get(), &from.length) == 1);
            CHECK(sendto(fd, &byte, 1, 0, from.get(), from.length) == 1);
        }
    }
    for (const int fd : group) close(fd);
    return [=](bool last) mutable {
        for (int i = 0; i < callers; ++i) {
            const int fd = socket(AF_INET, SOCK_DGRAM, 0);
            pollfd polled{fd, POLLIN, 0};
            char byte = 0;
            CHECK(fd >= 0 && connect(fd, name.get(), name.length) == 0 && send(fd, "w", 1, 0) == 1);
            CHECK(poll(&polled, 1, 10'000) == 1 && recv(fd, &byte, 1, 0) == 1 && byte == 'w');
            CHECK(close(fd) == 0);
        }
        for (const pid_t child : children) {
            CHECK(waitpid(child, nullptr, WNOHANG) == 0);
            if (last) kill(child, SIGKILL);
        }
    };
}

}  // namespace

int main() {
    test::serve({{"listening", [] { return listeners(AF_INET); }},
                 {"listening, IPv6", [] { return listeners(AF_INET6); }},
                 {"datagrams", [] { return receivers(AF_INET); }},
                 {"datagrams, IPv6", [] { return receivers(AF_INET6); }},
                 {"other processes", other_processes}});
}
