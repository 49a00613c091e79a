// What is on its way through a TCP connection: received and not read, sent and not received.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "common/error.h"
#include "common/schema/process.h"

namespace cairn::capture {

// tcp_info as far as it is needed here; source: linux/tcp.h.
struct TcpState {
    int state = 0;
    std::uint64_t acknowledged = 0, received = 0;
};
[[nodiscard]] TcpState tcp_state(int fd);
[[nodiscard]] bool has_shut_its_sending(int state);
[[nodiscard]] bool has_seen_the_end(int state);

// Bytes, and an end (FIN), that one end has sent and the other hasn't received, in both directions together.
// Exact: what an end has sent is what was acknowledged and what wasn't (SIOCOUTQ); the end that had called
// counts its SYN as well. 0: nothing is in between.
[[nodiscard]] std::int64_t in_between(int a, int b);

struct Received {
    schema::Bytes data;
    bool marked = false;                 // there is an urgent mark in it
    std::size_t mark = 0;                // bytes before the mark
    std::optional<std::uint8_t> urgent;  // the urgent byte, if it is kept apart and was not read
};
// What waits to be read. Takes nothing.
[[nodiscard]] Result<Received> look_into_tcp(int fd);

// What `sender` has sent and `receiver` hasn't got, without moving it (TCP_REPAIR, CAP_NET_ADMIN). Nothing:
// not permitted.
[[nodiscard]] Result<std::optional<schema::Bytes>> look_between(int sender, int receiver);

// What a socket has sent and nobody has acknowledged, and the sequence number behind it, its end (FIN) not
// counted (TCP_REPAIR). Nothing: not permitted.
struct SendQueue {
    schema::Bytes data;
    std::uint32_t end = 0;
};
[[nodiscard]] Result<std::optional<SendQueue>> look_at_send_queue(int fd);
// The sequence number behind what has arrived; nothing: not permitted.
[[nodiscard]] std::optional<std::uint32_t> receive_sequence(int fd);

// Gives `receiver` room until `arrived`: what is on its way to it comes to it. `sender`: -1 if nobody holds
// that end; `bytes`: how many are coming. False: it didn't arrive. The receive buffer is what it was
// afterwards, but 256 KiB at least; it holds more than that until the program has read it.
[[nodiscard]] bool let_flow(int receiver, int sender, std::size_t bytes,
                            const std::function<bool()>& arrived);

// SO_RCVLOWAT makes room for so many bytes and no more (tcp_set_rcvlowat() in net/ipv4/tcp.c).
[[nodiscard]] std::uint64_t most_room();

// For a receiver that is full. One whose program reads slowly would be full again as soon as it has read
// something, and never have room for what its partner has sent. With a smaller buffer its partner has to
// wait. Nothing that was promised is lost: it is full.
void keep_small(int fd);

}  // namespace cairn::capture
