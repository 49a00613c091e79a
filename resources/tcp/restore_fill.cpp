#include "resources/tcp/restore_fill.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "resources/socket/restore.h"

namespace cairn::restart {
namespace {

int arrived_at(int fd) {
    int waiting = 0;
    return ::ioctl(fd, FIONREAD, &waiting) == 0 ? waiting : -1;
}

// A sender's buffer whose size nobody has set grows up to net.ipv4.tcp_wmem, which may be more than an
// ordinary user may set.
void grow_by_itself(int from) {
    int locks = 0;
    socklen_t length = sizeof locks;
    ::getsockopt(from, SOL_SOCKET, schema::so_buf_lock, &locks, &length);
    set_int(from, SOL_SOCKET, schema::so_buf_lock, locks & ~schema::lock_send);
}

// Takes out what has been sent, `bytes`. False: not all of it came. What was taken out together counts when
// something is taken out again, an eighth of a round trip later: as the receiver estimates it, by the time
// in which a window has filled.
bool take_out(int to, std::size_t bytes, std::chrono::milliseconds pause) {
    const auto begin = std::chrono::steady_clock::now();
    while (bytes > 0 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(3)) {
        const ssize_t got = ::recv(to, nullptr, bytes, MSG_DONTWAIT | MSG_TRUNC);
        if (got > 0) bytes -= static_cast<std::size_t>(got);
        if (bytes > 0) std::this_thread::sleep_for(pause);
    }
    return bytes == 0;
}

}  // namespace

void hold_more(int from, std::size_t bytes) {
    int now = 0;
    socklen_t length = sizeof now;
    ::getsockopt(from, SOL_SOCKET, SO_SNDBUF, &now, &length);
    const int wanted =
        static_cast<int>(std::min<std::size_t>(bytes + (1 << 20), 1 << 29));  // doubled by the kernel
    if (wanted <= now / 2 || ::setsockopt(from, SOL_SOCKET, SO_SNDBUFFORCE, &wanted, sizeof wanted) == 0)
        return;
    int most = 0;
    std::ifstream("/proc/sys/net/core/wmem_max") >> most;
    if (std::min(wanted, most) > now / 2) set_int(from, SOL_SOCKET, SO_SNDBUF, wanted);
}

Result<> Filling::send(int from, int to, std::span<const std::uint8_t> data, int flags) {
    // A receiver's buffer grows by what is read at a time, up to net.ipv4.tcp_rmem (tcp_rcv_space_adjust() in
    // net/ipv4/tcp_input.c), and by nothing else that an ordinary user has. What the program had read has let
    // it grow; here what was sent is taken out, and sent once more.
    constexpr int most_again = 8;
    int again = to >= 0 && flags == 0 && arrived_at(to) == 0 ? 0 : most_again;
    std::size_t done = 0;
    auto moved = std::chrono::steady_clock::now();
    while (done < data.size()) {
        const ssize_t sent =
            ::send(from, data.data() + done, data.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL | flags);
        if (sent > 0) {
            done += static_cast<std::size_t>(sent);
            moved = std::chrono::steady_clock::now();
            continue;
        }
        if (sent < 0 && errno != EAGAIN) return fail_errno("what was on its way can't be sent");
        const auto waited = std::chrono::steady_clock::now() - moved;
        if (waited > (to >= 0 ? std::chrono::seconds(3) : other_patience))
            return fail("what was on its way ({} bytes) doesn't fit", data.size());
        if (again < most_again && waited > std::chrono::milliseconds(300)) {
            ++again;
            grow_by_itself(from);
            if (!take_out(to, done, again * std::chrono::milliseconds(20)))
                return fail("what was on its way can't be taken out again");
            done = 0;
            moved = std::chrono::steady_clock::now();
            continue;
        }
        if (to >= 0 && waited > std::chrono::milliseconds(100)) receive_more(to, data.size() - done);
        if (to < 0 && waited > std::chrono::milliseconds(500)) CHECK_OK(still_wanted_());
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return {};
}

void Filling::receive_more(int to, std::size_t bytes) {
    over_.insert(to);
    const int waiting = std::max(0, arrived_at(to));
    int low = 1, locks = 0;
    socklen_t length = sizeof low;
    ::getsockopt(to, SOL_SOCKET, SO_RCVLOWAT, &low, &length);
    length = sizeof locks;
    ::getsockopt(to, SOL_SOCKET, schema::so_buf_lock, &locks, &length);
    set_int(to, SOL_SOCKET, schema::so_buf_lock, locks & ~schema::lock_receive);
    set_int(to, SOL_SOCKET, SO_RCVLOWAT,
            waiting + static_cast<int>(std::min<std::size_t>(bytes, 1 << 28)) + (1 << 16));
    set_int(to, SOL_SOCKET, SO_RCVLOWAT, low);
    set_int(to, SOL_SOCKET, schema::so_buf_lock, locks);
    char byte = 0;
    if (waiting > 0) (void)!::recv(to, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    set_int(to, IPPROTO_TCP, TCP_QUICKACK, 1);
}

Result<> Filling::fill(const Received& end, int sender) {
    const auto data = end.data;
    const int receiver = end.receiver;
    const auto& [mark, among_rest] = end.urgency;
    if (!mark) return send(sender, receiver, data);
    const auto before = std::min<std::size_t>(mark->before, data.size());
    CHECK_OK(send(sender, receiver, data.first(before)));
    const bool apart = mark->urgent.has_value();
    const bool among = among_rest && before < data.size();
    // Read already: the mark is there nevertheless.
    const std::uint8_t urgent = mark->urgent.value_or(among ? data[before] : std::uint8_t{0});
    CHECK_OK(send(sender, receiver, {&urgent, 1}, MSG_OOB));
    if (!apart && !among && receiver >= 0) {
        std::uint8_t byte = 0;
        pollfd polled{receiver, POLLPRI, 0};
        ::poll(&polled, 1, 1000);
        (void)!::recv(receiver, &byte, 1, MSG_OOB | MSG_DONTWAIT);
    }
    const std::size_t rest = before + (among ? 1 : 0);
    return send(sender, receiver, data.subspan(rest));
}

}  // namespace cairn::restart
