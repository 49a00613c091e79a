// sock_diag(7): what the kernel tells of sockets by netlink, and by nothing else: who is connected to whom,
// which connections nobody has accepted yet, what a socket without a descriptor is doing.
#pragma once

#include <linux/packet_diag.h>
#include <netinet/tcp.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/error.h"
#include "common/fd.h"

namespace cairn::capture {

// The kernel's tcp_states.h, used for Unix sockets as well; netinet/tcp.h has the first eleven.
inline constexpr int state_established = 1, state_closed = 7, state_listen = 10;
inline constexpr int shut_receive = 1, shut_send = 2;  // RCV_SHUTDOWN, SEND_SHUTDOWN

struct UnixDiagnosis {
    int state = 0;
    ino_t peer = 0;    // 0: none, or one that nobody has accepted, or that is closed
    int shutdown = 0;  // shut_receive | shut_send
    std::string name;  // sun_path without the family; "" unnamed
    dev_t path_device = 0;
    std::uint32_t path_inode = 0;  // lower 32 bits; 0: not bound to a path
    std::vector<ino_t> pending;    // listening: the clients, oldest first; 0: one that has closed already
    std::uint32_t backlog = 0;     // listening: listen(2)'s
};

// An Internet socket, with or without a descriptor. Addresses as sockaddr.
struct InternetDiagnosis {
    int state = 0;
    std::string own, peer;
    ino_t inode = 0;            // 0: of no descriptor: not accepted yet, or closed and not finished
    std::uint32_t waiting = 0;  // received and not read; listening: pending connections
    std::uint32_t unsent = 0;   // sent and not acknowledged; listening: the backlog
    std::uint64_t acknowledged = 0, received = 0;  // tcpi_bytes_acked, tcpi_bytes_received
    int shutdown = 0;
};

struct PacketMembership {
    unsigned interface = 0, type = 0, count = 0;  // PACKET_MR_*
    std::string address;
};
struct PacketDiagnosis {
    packet_diag_info info{};
    std::optional<packet_diag_ring> receive_ring;
    bool transmit_ring = false;
    std::vector<PacketMembership> memberships;
};

// One netlink socket for all questions.
class SockDiag {
  public:
    // It tells of the network namespace that its caller is in when it is opened, by the first question at the
    // latest.
    [[nodiscard]] Result<> open();
    [[nodiscard]] Result<UnixDiagnosis> unix_socket(ino_t inode, bool listening = false);
    // All TCP sockets of the network namespace.
    [[nodiscard]] Result<std::vector<InternetDiagnosis>> tcp_sockets();

    // Refused where the kernel doesn't tell (CONFIG_PACKET_DIAG, which every distribution has).
    [[nodiscard]] Result<PacketDiagnosis> packet_socket(ino_t inode);

  private:
    [[nodiscard]] Result<> ask(const void* request, std::size_t size);
    [[nodiscard]] Result<> list(const void* request, std::size_t size,
                                const std::function<void(std::span<const char>)>& take);
    [[nodiscard]] Result<> list_unix_sockets();

    Fd netlink_;
    std::vector<char> answer_;
    int asked_ = 0;
    std::unordered_map<std::uint32_t, UnixDiagnosis> unix_sockets_;  // by the lower half of their inodes
};

}  // namespace cairn::capture
