#include "resources/tcp/capture_queue.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

#include "resources/socket/capture.h"
#include "resources/socket/capture_diag.h"
#include "resources/socket/schema.h"

namespace cairn::capture {
namespace {

using Clock = std::chrono::steady_clock;

int queued(int fd, unsigned long what) {
    int value = 0;
    return ::ioctl(fd, what, &value) == 0 ? value : 0;
}

bool set_option(int fd, int level, int option, int value) {
    return ::setsockopt(fd, level, option, &value, sizeof value) == 0;
}

// The scope in which a socket shows its queues. Sending is put off meanwhile, and everybody who could send
// stands still. Leaving it the kernel forgets SO_REUSEADDR.
class Repair {
  public:
    explicit Repair(int fd) : fd_(fd), reuse_(socket_option<int>(fd, SOL_SOCKET, SO_REUSEADDR)) {
        on_ = set_option(fd, IPPROTO_TCP, TCP_REPAIR, 1);
    }
    Repair(const Repair&) = delete;
    Repair& operator=(const Repair&) = delete;
    ~Repair() {
        if (!on_) return;
        constexpr int off_without_probe = -1;  // TCP_REPAIR_OFF_NO_WP, since Linux 4.19
        if (!set_option(fd_, IPPROTO_TCP, TCP_REPAIR, off_without_probe))
            set_option(fd_, IPPROTO_TCP, TCP_REPAIR, 0);
        set_option(fd_, SOL_SOCKET, SO_REUSEADDR, reuse_);
    }
    [[nodiscard]] bool on() const { return on_; }
    [[nodiscard]] bool choose(int queue) const {
        return set_option(fd_, IPPROTO_TCP, TCP_REPAIR_QUEUE, queue);
    }
    [[nodiscard]] std::uint32_t sequence() const {
        return socket_option<std::uint32_t>(fd_, IPPROTO_TCP, TCP_QUEUE_SEQ);
    }

  private:
    int fd_, reuse_;
    bool on_ = false;
};

class PeekOffset {
  public:
    explicit PeekOffset(int fd) : fd_(fd), before_(socket_option<int>(fd, SOL_SOCKET, SO_PEEK_OFF)) {}
    PeekOffset(const PeekOffset&) = delete;
    PeekOffset& operator=(const PeekOffset&) = delete;
    ~PeekOffset() { set_option(fd_, SOL_SOCKET, SO_PEEK_OFF, before_); }
    [[nodiscard]] bool set(std::size_t offset) const {
        return set_option(fd_, SOL_SOCKET, SO_PEEK_OFF, static_cast<int>(offset));
    }

  private:
    int fd_, before_;
};

}  // namespace

bool has_shut_its_sending(int state) {
    return state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING ||
           state == TCP_LAST_ACK || state == TCP_TIME_WAIT;
}

bool has_seen_the_end(int state) {
    return state == TCP_CLOSE_WAIT || state == TCP_CLOSING || state == TCP_LAST_ACK ||
           state == TCP_TIME_WAIT || state == TCP_CLOSE;
}

TcpState tcp_state(int fd) {
    constexpr std::size_t acked_at = 120, received_at = 128;
    char info[256] = {};
    socklen_t length = sizeof info;
    TcpState found;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length) != 0) return found;
    found.state = static_cast<unsigned char>(info[0]);
    std::memcpy(&found.acknowledged, info + acked_at, sizeof found.acknowledged);
    std::memcpy(&found.received, info + received_at, sizeof found.received);
    return found;
}

std::int64_t in_between(int a, int b) {
    const auto sent = [](int fd, const TcpState& state) {
        return static_cast<std::int64_t>(state.acknowledged) + queued(fd, SIOCOUTQ);
    };
    // Timers may send and acknowledge between two questions.
    std::int64_t last = -1;
    for (int tries = 0; tries < 10; ++tries) {
        const TcpState at_a = tcp_state(a), at_b = tcp_state(b);
        const std::int64_t now = sent(a, at_a) - static_cast<std::int64_t>(at_b.received) + sent(b, at_b) -
                                 static_cast<std::int64_t>(at_a.received) - 1;
        if (now == last) break;
        last = now;
    }
    return last;
}

Result<Received> look_into_tcp(int fd) {
    Received found;
    pollfd polled{fd, POLLIN | POLLPRI, 0};
    ::poll(&polled, 1, 0);
    const bool inline_mark = socket_option<int>(fd, SOL_SOCKET, SO_OOBINLINE) != 0;
    const auto peek = [&](std::size_t most) -> Result<std::size_t> {
        const std::size_t begin = found.data.size();
        found.data.resize(begin + most);
        const ssize_t got = ::recv(fd, found.data.data() + begin, most, MSG_PEEK | MSG_DONTWAIT);
        found.data.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        if (got < 0 && errno != EAGAIN) return fail_errno("what waits in it can't be read");
        return static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    };
    // A look beyond the end takes a pending error away.
    const auto waiting = static_cast<std::size_t>(queued(fd, FIONREAD));
    if (waiting > 0) CHECK_OK(peek(waiting));
    const bool at_mark = queued(fd, SIOCATMARK) != 0;
    if ((polled.revents & POLLERR) != 0 || (waiting == 0 && !at_mark)) return found;
    // A look ends at the urgent mark: is there more behind it? SO_PEEK_OFF: since Linux 6.9 for TCP.
    const bool short_look = found.data.size() < waiting;
    std::uint8_t byte = 0;
    const bool kept_apart = !inline_mark && ::recv(fd, &byte, 1, MSG_OOB | MSG_PEEK | MSG_DONTWAIT) == 1;
    if (kept_apart) found.urgent = byte;
    found.marked = kept_apart || at_mark || short_look;
    found.mark = found.data.size();
    const PeekOffset offset(fd);
    if (!offset.set(found.data.size())) {
        if (!found.marked) return found;
        return fail_code(ExitCode::refused,
                         "has an urgent byte waiting, and this kernel doesn't show what is behind it");
    }
    for (;;) {
        auto more = peek(std::size_t{1} << 18);
        if (!more) return std::unexpected(std::move(more.error()));
        if (*more == 0) return found;
        found.marked = true;  // else the first look had got it
        // An urgent byte that isn't read in its place has one nevertheless.
        if (!offset.set(found.data.size() + (inline_mark ? 0 : 1))) return found;
    }
}

Result<std::optional<schema::Bytes>> look_between(int sender, int receiver) {
    const Repair of_sender(sender), of_receiver(receiver);
    if (!of_sender.on() || !of_receiver.on()) return std::optional<schema::Bytes>();
    if (!of_receiver.choose(TCP_RECV_QUEUE)) return fail_errno("TCP_REPAIR_QUEUE");
    const std::uint32_t arrived = of_receiver.sequence();
    if (!of_receiver.choose(TCP_NO_QUEUE) || !of_sender.choose(TCP_SEND_QUEUE))
        return fail_errno("TCP_REPAIR_QUEUE");
    const std::uint32_t written = of_sender.sequence();
    schema::Bytes data(static_cast<std::size_t>(queued(sender, SIOCOUTQ)));
    const ssize_t got = data.empty() ? 0 : ::recv(sender, data.data(), data.size(), MSG_PEEK | MSG_DONTWAIT);
    const int problem = errno;
    (void)of_sender.choose(TCP_NO_QUEUE);
    if (got < 0) {
        errno = problem;
        return fail_errno("what it has sent can't be read");
    }
    data.resize(static_cast<std::size_t>(got));
    // Sequence numbers wrap around. Its end (FIN) has one as well.
    std::uint32_t missing = written - arrived;
    const int state = tcp_state(sender).state;
    const bool ended = state == TCP_FIN_WAIT1 || state == TCP_CLOSING || state == TCP_LAST_ACK;
    if (ended && missing > 0) --missing;
    if (missing > data.size()) {
        auto moved = fail("{} bytes are missing, and {} are in the send queue", missing, data.size());
        moved.error().passing = true;  // some of it has arrived meanwhile
        return moved;
    }
    data.erase(data.begin(), data.end() - static_cast<std::ptrdiff_t>(missing));
    return std::optional(std::move(data));
}

Result<std::optional<SendQueue>> look_at_send_queue(int fd) {
    const Repair repair(fd);
    if (!repair.on()) return std::optional<SendQueue>();
    if (!repair.choose(TCP_SEND_QUEUE)) return fail_errno("TCP_REPAIR_QUEUE");
    SendQueue queue;
    queue.end = repair.sequence();
    queue.data.resize(static_cast<std::size_t>(queued(fd, SIOCOUTQ)));
    // What is acknowledged meanwhile goes from the front, and the rest is what there is.
    const ssize_t got =
        queue.data.empty() ? 0 : ::recv(fd, queue.data.data(), queue.data.size(), MSG_PEEK | MSG_DONTWAIT);
    const int problem = errno;
    (void)repair.choose(TCP_NO_QUEUE);
    if (got < 0 && problem != EAGAIN) {
        errno = problem;
        return fail_errno("what it has sent can't be read");
    }
    queue.data.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    const int state = tcp_state(fd).state;
    if (state == TCP_FIN_WAIT1 || state == TCP_CLOSING || state == TCP_LAST_ACK) --queue.end;
    return std::optional(std::move(queue));
}

std::optional<std::uint32_t> receive_sequence(int fd) {
    const Repair repair(fd);
    if (!repair.on() || !repair.choose(TCP_RECV_QUEUE)) return {};
    const std::uint32_t sequence = repair.sequence();
    (void)repair.choose(TCP_NO_QUEUE);
    return sequence;
}

bool let_flow(int receiver, int sender, std::size_t bytes, const std::function<bool()>& arrived) {
    const int buffer = socket_option<int>(receiver, SOL_SOCKET, SO_RCVBUF);
    const int locks = socket_option<int>(receiver, SOL_SOCKET, schema::so_buf_lock);
    const int low = socket_option<int>(receiver, SOL_SOCKET, SO_RCVLOWAT);
    const auto waiting = [&] { return static_cast<std::size_t>(queued(receiver, FIONREAD)); };
    const std::size_t in_the_end = waiting() + bytes;
    // SO_RCVLOWAT makes room for so many bytes (since Linux 4.18), unless the program has set SO_RCVBUF: that
    // lock is taken off for the moment.
    const auto make_room = [&](std::size_t room) {
        set_option(receiver, SOL_SOCKET, schema::so_buf_lock, locks & ~schema::lock_receive);
        set_option(receiver, SOL_SOCKET, SO_RCVLOWAT,
                   static_cast<int>(std::min<std::size_t>(room, 1U << 29)));
        set_option(receiver, SOL_SOCKET, SO_RCVLOWAT, low);
    };
    const auto push = [&] {
        if (sender < 0) return;
        const int no_delay = socket_option<int>(sender, IPPROTO_TCP, TCP_NODELAY);
        set_option(sender, IPPROTO_TCP, TCP_NODELAY, 1);  // sends what a cork or Nagle's algorithm has kept
        set_option(sender, IPPROTO_TCP, TCP_NODELAY, no_delay);
    };
    // Just as much as is needed: what is promised and not used would be sent later, into a buffer that is
    // full.
    make_room(in_the_end);
    push();
    constexpr auto patience = std::chrono::milliseconds(300), pause = std::chrono::milliseconds(2);
    auto moved = Clock::now(), raised = moved;
    std::size_t last = 0, slack = 0;
    bool here = arrived();
    while (!here && Clock::now() - moved < patience) {
        char byte = 0;
        // A look tells the sender of the room, and so does an acknowledgement.
        if (waiting() > 0) (void)!::recv(receiver, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        set_option(receiver, IPPROTO_TCP, TCP_QUICKACK, 1);
        const auto now = Clock::now();
        if (const std::size_t have = waiting(); have != last) {
            last = have;
            moved = raised = now;
        } else if (now - raised > pause) {
            slack += (in_the_end - std::min(last, in_the_end)) / 4 + 4096;
            make_room(in_the_end + slack);
            push();
            raised = now;
        }
        ::usleep(50);
        here = arrived();
    }
    // A sender that has once seen a large window sends whole segments, of 64 KiB on a host's own addresses,
    // and waits for a timer each time if the window is smaller.
    const int least = std::max(buffer, 1 << 18) / 2;
    if (socket_option<int>(receiver, SOL_SOCKET, SO_RCVBUF) > 2 * least &&
        !set_option(receiver, SOL_SOCKET, SO_RCVBUFFORCE, least))
        set_option(receiver, SOL_SOCKET, SO_RCVBUF, least);
    set_option(receiver, SOL_SOCKET, schema::so_buf_lock, locks);
    return here;
}

std::uint64_t most_room() {
    std::uint64_t least = 0, usual = 0, most = 0;
    std::ifstream("/proc/sys/net/ipv4/tcp_rmem") >> least >> usual >> most;
    return most / 2;
}

void keep_small(int fd) {
    const int locks = socket_option<int>(fd, SOL_SOCKET, schema::so_buf_lock);
    const int less =
        static_cast<int>(std::min<std::uint64_t>(most_room() / 4, 1 << 29));  // doubled by the kernel
    if (socket_option<int>(fd, SOL_SOCKET, SO_RCVBUF) <= 2 * less) return;
    set_option(fd, SOL_SOCKET, SO_RCVBUF, less);
    set_option(fd, SOL_SOCKET, schema::so_buf_lock, locks);
}

}  // namespace cairn::capture
