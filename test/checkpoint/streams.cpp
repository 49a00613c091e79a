// Pairs of processes that send to each other without a pause, both ways, over every kind of socket that keeps
// order. Each byte is known beforehand: none may be lost, doubled or moved, whatever is checkpointed and
// restarted meanwhile.
// rain: soak
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "support.h"

namespace {

struct Side {
    std::atomic<std::uint64_t> written, read;
};
struct Board {
    std::atomic<bool> stop;
    Side sides[16];
};

char pattern(std::uint64_t at) {
    return static_cast<char>(at * 2654435761U >> 11);
}

// Sizes of messages are known as well.
std::size_t size_of(std::uint64_t number) {
    return 4 + static_cast<std::size_t>(number * 2654435761U >> 7) % 6000;
}

class End {
  public:
    End(int fd, bool packets, Side& side, const Board& board, bool slow)
        : fd_(fd), packets_(packets), slow_(slow), side_(side), board_(board), block_(200000) {
        fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
    }

    void run() {
        bool ended = false, told = false;
        while (!ended || !told) {
            pollfd polled{fd_, static_cast<short>(POLLIN | (told ? 0 : POLLOUT)), 0};
            CHECK(poll(&polled, 1, 20000) == 1);
            if ((polled.revents & POLLOUT) != 0 && !told) told = write_some();
            if ((polled.revents & (POLLIN | POLLHUP)) != 0) ended = read_some() || ended;
            // Now the one is faster, now the other: buffers run full and empty.
            if (slow_ && (turns_++ & 255) < 8) test::nap(2);
        }
    }

  private:
    // True: the end has been sent.
    bool write_some() {
        if (board_.stop) {
            if (!packets_) return shutdown(fd_, SHUT_WR) == 0;
            return send(fd_, "END", 3, MSG_NOSIGNAL) == 3;
        }
        const std::size_t size = packets_ ? size_of(sent_) : 1 + size_of(sent_) * 23 % 150000;
        const std::uint64_t from = side_.written;
        for (std::size_t i = 0; i < size; ++i) block_[i] = pattern(from + i);
        const ssize_t sent = send(fd_, block_.data(), size, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) return false;
        CHECK(sent > 0 && (!packets_ || static_cast<std::size_t>(sent) == size));
        ++sent_;
        side_.written = from + static_cast<std::uint64_t>(sent);
        return false;
    }

    // True: the other has ended.
    bool read_some() {
        const ssize_t got = recv(fd_, block_.data(), packets_ ? block_.size() : size_of(received_) * 17, 0);
        if (got < 0 && errno == EAGAIN) return false;
        CHECK(got >= 0);
        if (got == 0) return true;
        if (packets_ && got == 3) {
            CHECK(std::memcmp(block_.data(), "END", 3) == 0);
            return true;
        }
        if (packets_) CHECK(static_cast<std::size_t>(got) == size_of(received_));
        ++received_;
        const std::uint64_t from = side_.read;
        for (ssize_t i = 0; i < got; ++i)
            CHECK(block_[static_cast<std::size_t>(i)] == pattern(from + static_cast<std::uint64_t>(i)));
        side_.read = from + static_cast<std::uint64_t>(got);
        return false;
    }

    int fd_;
    bool packets_, slow_;
    Side& side_;
    const Board& board_;
    std::vector<char> block_;
    std::uint64_t sent_ = 0, received_ = 0;
    unsigned turns_ = 0;
};

void tcp_pair(int domain, int (&fds)[2]) {
    const int listener = socket(domain, SOCK_STREAM, 0);
    sockaddr_storage name{};
    socklen_t length = domain == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    name.ss_family = static_cast<sa_family_t>(domain);
    if (domain == AF_INET) {
        auto* v4 = reinterpret_cast<sockaddr_in*>(&name);
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        auto* v6 = reinterpret_cast<sockaddr_in6*>(&name);
        v6->sin6_addr = in6addr_loopback;
    }
    auto* address = reinterpret_cast<sockaddr*>(&name);
    CHECK(bind(listener, address, length) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, address, &length) == 0);
    fds[0] = socket(domain, SOCK_STREAM, 0);
    CHECK(connect(fds[0], address, length) == 0);
    fds[1] = accept(listener, nullptr, nullptr);
    CHECK(fds[1] >= 0);
    close(listener);
}

}  // namespace

int main() {
    auto* board = static_cast<Board*>(
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(board != MAP_FAILED);
    std::vector<pid_t> children;
    unsigned index = 0;
    const auto start = [&](int(&fds)[2], bool packets) {
        for (int which = 0; which < 2; ++which) {
            const pid_t child = fork();
            if (child == 0) {
                close(fds[1 - which]);
                End(fds[which], packets, board->sides[index + static_cast<unsigned>(which)], *board,
                    which == 1)
                    .run();
                _exit(0);
            }
            children.push_back(child);
        }
        index += 2;
        close(fds[0]);
        close(fds[1]);
    };
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    start(fds, false);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
    start(fds, true);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
    start(fds, true);
    tcp_pair(AF_INET, fds);
    start(fds, false);
    tcp_pair(AF_INET6, fds);
    const int small = 30000;
    setsockopt(fds[1], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    start(fds, false);

    std::vector<std::uint64_t> before(index, 0);
    test::serve([&](bool last) {
        for (unsigned i = 0; i < index; ++i) {
            for (int waited = 0; board->sides[i].read <= before[i]; ++waited) {
                CHECK(waited < 1500);
                test::nap(10);
            }
            before[i] = board->sides[i].read;
        }
        for (const pid_t child : children) CHECK(waitpid(child, nullptr, WNOHANG) == 0);
        if (!last) return;
        board->stop = true;
        for (const pid_t child : children) {
            int status = -1;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
        for (unsigned i = 0; i < index; ++i) CHECK(board->sides[i].written == board->sides[i ^ 1U].read);
    });
}
