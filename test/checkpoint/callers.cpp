// Clients that connect, send something, and are gone before anybody has accepted them: no descriptor leads to
// what they have sent, and none of it may be lost. A Unix one sends a descriptor as well.
// ci: exact user
// network: own (the ports that it has had must be free at its restart)
// heirs: none
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "support.h"

namespace {

struct Board {
    std::atomic<bool> stop;
    std::atomic<std::uint32_t> answered[4];
};

int send_with(int to, std::uint32_t number, int right) {
    iovec part{&number, sizeof number};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (right >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &right, sizeof right);
    }
    return static_cast<int>(sendmsg(to, &message, MSG_NOSIGNAL));
}

// The number, and the descriptor if there is one.
int take_with(int from, std::uint32_t& number) {
    iovec part{&number, sizeof number};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    CHECK(recvmsg(from, &message, MSG_WAITALL) == sizeof number);
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    int right = -1;
    if (header != nullptr) std::memcpy(&right, CMSG_DATA(header), sizeof right);
    return right;
}

struct Kind {
    int domain, type;
    sockaddr_storage name;
    socklen_t length;
};

// It is the only one that accepts, and takes its time before it does.
void serve_callers(int listener, const Kind& kind, std::atomic<std::uint32_t>& answered) {
    for (std::uint32_t expected = 1;; ++expected) {
        if (expected % 4 == 0) test::nap(2);
        const int caller = accept(listener, nullptr, nullptr);
        CHECK(caller >= 0);
        std::uint32_t number = 0, inner = 0;
        const int right = take_with(caller, number);
        if (number == 0) _exit(0);
        CHECK(number == expected);
        CHECK((right >= 0) == (kind.domain == AF_UNIX));
        if (right >= 0) {
            CHECK(read(right, &inner, sizeof inner) == sizeof inner && inner == number);
            CHECK(read(right, &inner, sizeof inner) == 0);
            close(right);
        }
        char nothing = 0;
        CHECK(recv(caller, &nothing, 1, 0) == 0);
        close(caller);
        answered = number;
    }
}

void call(const Kind& kind, std::uint32_t number) {
    const int fd = socket(kind.domain, kind.type, 0);
    CHECK(fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&kind.name), kind.length) == 0);
    int ends[2] = {-1, -1};
    if (kind.domain == AF_UNIX) {
        CHECK(pipe(ends) == 0 && write(ends[1], &number, sizeof number) == sizeof number);
        close(ends[1]);
    }
    CHECK(send_with(fd, number, ends[0]) == sizeof number);
    close(fd);
    if (ends[0] >= 0) close(ends[0]);
}

void call_again_and_again(const Kind& kind, const Board& board, const std::atomic<std::uint32_t>& answered) {
    for (std::uint32_t number = 1; !board.stop; ++number) {
        call(kind, number);
        while (answered != number) test::nap(1);
        test::nap(1);
    }
    call(kind, 0);
    _exit(0);
}

Kind unix_kind(int type, const char* name) {
    Kind kind{AF_UNIX, type, {}, sizeof(sockaddr_un)};
    auto& address = reinterpret_cast<sockaddr_un&>(kind.name);
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", name);
    return kind;
}

Kind internet_kind(int domain) {
    Kind kind{domain,
              SOCK_STREAM,
              {},
              domain == AF_INET ? socklen_t{sizeof(sockaddr_in)} : socklen_t{sizeof(sockaddr_in6)}};
    kind.name.ss_family = static_cast<sa_family_t>(domain);
    if (domain == AF_INET)
        reinterpret_cast<sockaddr_in&>(kind.name).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        reinterpret_cast<sockaddr_in6&>(kind.name).sin6_addr = in6addr_loopback;
    return kind;
}

}  // namespace

int main() {
    auto* board = static_cast<Board*>(
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(board != MAP_FAILED);
    Kind kinds[] = {unix_kind(SOCK_STREAM, "callers.stream"), unix_kind(SOCK_SEQPACKET, "callers.packets"),
                    internet_kind(AF_INET), internet_kind(AF_INET6)};
    std::vector<pid_t> children;
    unsigned index = 0;
    for (Kind& kind : kinds) {
        const int listener = socket(kind.domain, kind.type, 0);
        auto* const address = reinterpret_cast<sockaddr*>(&kind.name);
        CHECK(listener >= 0 && bind(listener, address, kind.length) == 0 && listen(listener, 5) == 0);
        if (kind.domain != AF_UNIX) CHECK(getsockname(listener, address, &kind.length) == 0);
        for (const bool server : {true, false}) {
            const pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                if (server) serve_callers(listener, kind, board->answered[index]);
                close(listener);
                call_again_and_again(kind, *board, board->answered[index]);
            }
            children.push_back(child);
        }
        close(listener);
        ++index;
    }
    std::vector<std::uint32_t> before(index, 0);
    test::serve([&](bool last) {
        for (unsigned i = 0; i < index; ++i) {
            for (int waited = 0; board->answered[i] < before[i] + 3; ++waited) {
                CHECK(waited < 1500);
                test::nap(10);
            }
            before[i] = board->answered[i];
        }
        for (const pid_t child : children) CHECK(waitpid(child, nullptr, WNOHANG) == 0);
        if (!last) return;
        board->stop = true;
        for (const pid_t child : children) {
            int status = -1;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
    });
}
