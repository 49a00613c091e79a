// vsock(7), sockets of virtual machines: new, bound, listening, stream and seqpacket, with their options,
// after a connect that failed, nonblocking, with a thread asleep in accept, held twice, by a child, and on
// its way.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <linux/vm_sockets.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "support.h"

namespace {

using test::Check;

int vsock(int style) {
    const int fd = socket(AF_VSOCK, style | SOCK_CLOEXEC, 0);
    if (fd < 0 && (errno == EAFNOSUPPORT || errno == EPERM)) test::skip("no vsocks");
    CHECK(fd >= 0);
    return fd;
}

sockaddr_vm name(unsigned cid, unsigned port) {
    sockaddr_vm name{};
    name.svm_family = AF_VSOCK;
    name.svm_cid = cid;
    name.svm_port = port;
    return name;
}
bool bind_to(int fd, const sockaddr_vm& name) {
    return bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
}
bool connect_to(int fd, const sockaddr_vm& name) {
    return connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
}
sockaddr_vm name_of(int fd) {
    sockaddr_vm name{};
    socklen_t length = sizeof name;
    CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0 && length == sizeof name);
    return name;
}
bool is_bound_to(int fd, const sockaddr_vm& wanted) {
    const sockaddr_vm own = name_of(fd);
    return own.svm_family == AF_VSOCK && own.svm_cid == wanted.svm_cid && own.svm_port == wanted.svm_port;
}
// To a port that the kernel chooses. It hands out one after the other: nobody else gets the same.
sockaddr_vm bind_somewhere(int fd, unsigned cid = VMADDR_CID_ANY) {
    CHECK(bind_to(fd, name(cid, VMADDR_PORT_ANY)));
    return name_of(fd);
}
// A port that was nobody's just now.
unsigned free_port() {
    const int fd = vsock(SOCK_STREAM);
    const unsigned port = bind_somewhere(fd).svm_port;
    close(fd);
    return port;
}

// Is there a transport from this machine to itself (vsock_loopback, Linux 5.6)? Then listeners can be called.
bool has_loopback() {
    const int fd = vsock(SOCK_STREAM);
    const bool has = bind_to(fd, name(VMADDR_CID_LOCAL, VMADDR_PORT_ANY));
    close(fd);
    return has;
}

short shown(int fd) {
    pollfd polled{fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    CHECK(poll(&polled, 1, 0) >= 0);
    return polled.revents;
}

bool is_new(int fd, int style) {
    return is_bound_to(fd, name(VMADDR_CID_ANY, VMADDR_PORT_ANY)) &&
           test::option(fd, SOL_SOCKET, SO_TYPE) == style &&
           test::option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0 && shown(fd) == POLLOUT;
}

// The port is really held: nobody else gets it, and the socket takes no other.
void check_bound(int fd, const sockaddr_vm& wanted, int style) {
    CHECK(is_bound_to(fd, wanted) && test::option(fd, SOL_SOCKET, SO_TYPE) == style);
    CHECK(!bind_to(fd, name(VMADDR_CID_ANY, VMADDR_PORT_ANY)) && errno == EINVAL);
    const int other = vsock(style);
    CHECK(!bind_to(other, name(VMADDR_CID_ANY, wanted.svm_port)) && errno == EADDRINUSE);
    close(other);
}

// A connection comes through, from this machine to itself.
void check_callable(int fd, const sockaddr_vm& wanted, int style) {
    const int caller = vsock(style);
    CHECK(connect_to(caller, name(VMADDR_CID_LOCAL, wanted.svm_port)));
    CHECK((shown(fd) & POLLIN) != 0);
    const int accepted = accept(fd, nullptr, nullptr);
    char byte = 0;
    CHECK(accepted >= 0 && write(caller, "v", 1) == 1 && read(accepted, &byte, 1) == 1 && byte == 'v');
    close(caller);
    close(accepted);
}

void check_listening(int fd, const sockaddr_vm& wanted, int style) {
    check_bound(fd, wanted, style);
    CHECK(test::option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1 && shown(fd) == 0);
    if (has_loopback()) check_callable(fd, wanted, style);
}

template <int style>
Check unbound() {
    const int fd = vsock(style);
    return [=](bool last) {
        CHECK(is_new(fd, style));
        char byte = 0;
        CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == ENOTCONN);
        CHECK(listen(fd, 1) == -1 && errno == EINVAL);
        if (!last) return;
        const sockaddr_vm own = bind_somewhere(fd);
        CHECK(listen(fd, 1) == 0);
        check_listening(fd, own, style);
    };
}

template <int style>
Check bound() {
    const int chosen = vsock(style), given = vsock(style), of_this = vsock(style);
    const sockaddr_vm chosen_name = bind_somewhere(chosen), given_name = name(VMADDR_CID_ANY, free_port());
    CHECK(bind_to(given, given_name));
    // The machine's own number isn't for everybody to ask for, /dev/vsock is root's. A loopback has a fixed
    // one.
    const bool loopback = bind_to(of_this, name(VMADDR_CID_LOCAL, VMADDR_PORT_ANY));
    const sockaddr_vm this_name = name_of(of_this);
    return [=](bool) {
        CHECK(chosen_name.svm_port != VMADDR_PORT_ANY && chosen_name.svm_port != given_name.svm_port);
        check_bound(chosen, chosen_name, style);
        check_bound(given, given_name, style);
        CHECK(shown(chosen) == POLLOUT && shown(given) == POLLOUT);
        if (loopback)
            check_bound(of_this, this_name, style);
        else
            CHECK(is_new(of_this, style));
    };
}

template <int style>
Check listening() {
    const int fd = vsock(style), deaf = vsock(style | SOCK_NONBLOCK);
    const sockaddr_vm own = bind_somewhere(fd), deaf_name = bind_somewhere(deaf);
    CHECK(listen(fd, 5) == 0 && listen(deaf, 0) == 0);
    return [=](bool) {
        check_listening(fd, own, style);
        CHECK(test::option(deaf, SOL_SOCKET, SO_ACCEPTCONN) == 1 && shown(deaf) == 0);
        CHECK(is_bound_to(deaf, deaf_name) && (fcntl(deaf, F_GETFL) & O_NONBLOCK) != 0);
        CHECK(accept(deaf, nullptr, nullptr) == -1 && errno == EAGAIN);
        CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
    };
}

std::uint64_t bytes(int fd, int option) {
    std::uint64_t value = 0;
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, AF_VSOCK, option, &value, &length) == 0 && length == sizeof value);
    return value;
}
void set_bytes(int fd, int option, std::uint64_t value) {
    CHECK(setsockopt(fd, AF_VSOCK, option, &value, sizeof value) == 0);
}
timeval time_of(int fd, int level, int option) {
    timeval value{};
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, level, option, &value, &length) == 0 && length == sizeof value);
    return value;
}
void set_time(int fd, int level, int option, timeval value) {
    CHECK(setsockopt(fd, level, option, &value, sizeof value) == 0);
}

// All that can be read of a socket's options.
struct Options {
    std::uint64_t size, least, most;
    timeval patience, receiving;
    int low_water, receive_buffer, reuse, keep_alive, zero_copy;

    explicit Options(int fd)
        : size(bytes(fd, SO_VM_SOCKETS_BUFFER_SIZE)),
          least(bytes(fd, SO_VM_SOCKETS_BUFFER_MIN_SIZE)),
          most(bytes(fd, SO_VM_SOCKETS_BUFFER_MAX_SIZE)),
          patience(time_of(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT)),
          receiving(time_of(fd, SOL_SOCKET, SO_RCVTIMEO)),
          low_water(test::option(fd, SOL_SOCKET, SO_RCVLOWAT)),
          receive_buffer(test::option(fd, SOL_SOCKET, SO_RCVBUF)),
          reuse(test::option(fd, SOL_SOCKET, SO_REUSEADDR)),
          keep_alive(test::option(fd, SOL_SOCKET, SO_KEEPALIVE)),
          zero_copy(test::option(fd, SOL_SOCKET, SO_ZEROCOPY)) {}
    bool operator==(const Options& other) const {
        const auto same = [](const timeval& a, const timeval& b) {
            return a.tv_sec == b.tv_sec && a.tv_usec == b.tv_usec;
        };
        return size == other.size && least == other.least && most == other.most &&
               same(patience, other.patience) && same(receiving, other.receiving) &&
               low_water == other.low_water && receive_buffer == other.receive_buffer &&
               reuse == other.reuse && keep_alive == other.keep_alive && zero_copy == other.zero_copy;
    }
};

Check options() {
    const int plain = vsock(SOCK_STREAM), larger = vsock(SOCK_SEQPACKET), smaller = vsock(SOCK_STREAM);
    const int crossed = vsock(SOCK_STREAM);
    set_bytes(larger, SO_VM_SOCKETS_BUFFER_MAX_SIZE, std::uint64_t{1} << 40);
    set_bytes(larger, SO_VM_SOCKETS_BUFFER_SIZE, std::uint64_t{1} << 33);
    set_bytes(larger, SO_VM_SOCKETS_BUFFER_MIN_SIZE, 1 << 20);
    set_time(larger, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, {100'000, 250'000});
    CHECK(bind_somewhere(larger).svm_port != VMADDR_PORT_ANY && listen(larger, 3) == 0);
    CHECK(bytes(larger, SO_VM_SOCKETS_BUFFER_SIZE) == std::uint64_t{1} << 33);

    // More than the buffer is by default, and more than it is in the end.
    set_bytes(smaller, SO_VM_SOCKETS_BUFFER_MAX_SIZE, 1 << 22);
    set_bytes(smaller, SO_VM_SOCKETS_BUFFER_SIZE, 1 << 22);
    test::set_option(smaller, SOL_SOCKET, SO_RCVLOWAT, 1 << 21);
    set_bytes(smaller, SO_VM_SOCKETS_BUFFER_MIN_SIZE, 1);
    set_bytes(smaller, SO_VM_SOCKETS_BUFFER_MAX_SIZE, 1000);
    set_bytes(smaller, SO_VM_SOCKETS_BUFFER_SIZE, 100);
    set_time(smaller, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, {0, 300'000});
    set_time(smaller, SOL_SOCKET, SO_RCVTIMEO, {7, 0});
    test::set_option(smaller, SOL_SOCKET, SO_RCVBUF, 50'000);
    test::set_option(smaller, SOL_SOCKET, SO_REUSEADDR, 1);
    test::set_option(smaller, SOL_SOCKET, SO_KEEPALIVE, 1);
    const int on = 1;  // since Linux 6.7
    const bool copies = setsockopt(smaller, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;

    set_bytes(crossed, SO_VM_SOCKETS_BUFFER_MIN_SIZE, 1 << 22);  // more than the most that it may be

    const Options defaults(plain), large(larger), small(smaller), odd(crossed);
    CHECK(small.size == 100 && small.low_water == 1 << 21 && small.zero_copy == (copies ? 1 : 0));
    CHECK(odd.most < odd.least);
    return [=](bool) {
        CHECK(Options(plain) == defaults);
        CHECK(Options(larger) == large);
        CHECK(Options(smaller) == small);
        CHECK(Options(crossed) == odd);
    };
}

// Nobody is there. What was to be told of it has been; whether the socket has got a name is the transport's.
Check failed_to_connect() {
    const int fd = vsock(SOCK_STREAM);
    set_time(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, {0, 10'000});
    CHECK(!connect_to(fd, name(VMADDR_CID_LOCAL, free_port())));
    CHECK(test::option(fd, SOL_SOCKET, SO_ERROR) >= 0 && shown(fd) == POLLOUT);
    const sockaddr_vm own = name_of(fd);
    return [=](bool) {
        CHECK(is_bound_to(fd, own) && shown(fd) == POLLOUT);
        CHECK(own.svm_port == VMADDR_PORT_ANY || (!bind_to(fd, own) && errno == EINVAL));
    };
}

Check asleep_in_accept() {
    const int fd = vsock(SOCK_STREAM);
    const sockaddr_vm own = bind_somewhere(fd);
    CHECK(listen(fd, 5) == 0);
    static std::atomic<int> accepted{0}, failed{0};
    std::thread([fd] {
        for (;;) {
            const int connection = accept(fd, nullptr, nullptr);
            ++(connection >= 0 ? accepted : failed);
            close(connection);
        }
    }).detach();
    static int called = 0;
    return [=](bool) {
        CHECK(accepted == called && failed == 0);
        CHECK(is_bound_to(fd, own) && test::option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1);
        if (!has_loopback()) return;
        const int caller = vsock(SOCK_STREAM);
        CHECK(connect_to(caller, name(VMADDR_CID_LOCAL, own.svm_port)));
        ++called;
        for (int i = 0; i < 2000 && accepted != called; ++i) test::nap(5);
        CHECK(accepted == called);
        close(caller);
    };
}

bool same_description(int a, int b) {
    const int flags = fcntl(a, F_GETFL);
    CHECK(fcntl(a, F_SETFL, flags ^ O_NONBLOCK) == 0);
    const bool same = fcntl(b, F_GETFL) == (flags ^ O_NONBLOCK);
    CHECK(fcntl(a, F_SETFL, flags) == 0);
    return same;
}

// Its child binds a socket that both have when it is told to.
Check shared() {
    const int fd = vsock(SOCK_STREAM), twice = dup(fd), other = vsock(SOCK_STREAM);
    const sockaddr_vm wanted = name(VMADDR_CID_ANY, free_port());
    int to_child[2], from_child[2];
    CHECK(twice >= 0 && pipe(to_child) == 0 && pipe(from_child) == 0);
    const pid_t child = fork();
    if (child == 0) {
        for (char order = 0; read(to_child[0], &order, 1) == 1;) {
            if (order == 'b') CHECK(bind_to(fd, wanted));
            const sockaddr_vm own = name_of(fd);
            CHECK(write(from_child[1], &own, sizeof own) == sizeof own);
        }
        _exit(0);
    }
    CHECK(child > 0);
    return [=](bool last) {
        CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(twice, F_GETFD) == 0);
        CHECK(same_description(fd, twice) && !same_description(fd, other));
        CHECK(is_new(twice, SOCK_STREAM));
        sockaddr_vm told{};
        CHECK(write(to_child[1], "?", 1) == 1 && read(from_child[0], &told, sizeof told) == sizeof told);
        CHECK(told.svm_port == VMADDR_PORT_ANY);
        if (!last) return;
        CHECK(write(to_child[1], "b", 1) == 1 && read(from_child[0], &told, sizeof told) == sizeof told);
        CHECK(told.svm_port == wanted.svm_port);
        check_bound(twice, wanted, SOCK_STREAM);
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

void send_descriptor(int through, int fd) {
    char byte = 'd';
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(sendmsg(through, &message, 0) == 1);
}
int receive_descriptor(int through) {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    CHECK(recvmsg(through, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != nullptr);
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

// Sent, not received, and closed by who sent it.
Check on_its_way() {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const int sent = vsock(SOCK_SEQPACKET);
    const sockaddr_vm own = bind_somewhere(sent);
    CHECK(listen(sent, 1) == 0);
    send_descriptor(ends[0], sent);
    close(sent);
    return [=](bool) {
        const int fd = receive_descriptor(ends[1]);
        CHECK(fd >= 0);
        check_bound(fd, own, SOCK_SEQPACKET);
        CHECK(test::option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1);
        send_descriptor(ends[0], fd);
        close(fd);
    };
}

}  // namespace

int main() {
    test::serve({{"a new stream", unbound<SOCK_STREAM>},
                 {"a new seqpacket", unbound<SOCK_SEQPACKET>},
                 {"a bound stream", bound<SOCK_STREAM>},
                 {"a bound seqpacket", bound<SOCK_SEQPACKET>},
                 {"a listening stream", listening<SOCK_STREAM>},
                 {"a listening seqpacket", listening<SOCK_SEQPACKET>},
                 {"options", options},
                 {"failed to connect", failed_to_connect},
                 {"asleep in accept", asleep_in_accept},
                 {"shared", shared},
                 {"on its way", on_its_way}});
}
