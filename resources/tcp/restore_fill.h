// What was on its way in a TCP connection when the checkpoint was taken, sent once more.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <span>

#include "common/error.h"
#include "resources/tcp/restore_links.h"

namespace cairn::restart {

constexpr auto other_patience = std::chrono::seconds(60);  // nothing moves between this part and another

// The sender's buffer holds what the receiver's has no room for. It is set back afterwards, which costs
// nothing.
void hold_more(int from, std::size_t bytes);

class Filling {
  public:
    // `still_wanted`: asked while another part keeps us waiting.
    explicit Filling(const StillWanted& still_wanted) : still_wanted_(still_wanted) {}

    // What the receiver's buffer has no room for stays in the sender's, as it was. `to` is -1 if it is on
    // another host.
    [[nodiscard]] Result<> send(int from, int to, std::span<const std::uint8_t> data, int flags = 0);

    // Room that is promised can't be taken back: what is sent then would be dropped.
    void receive_more(int to, std::size_t bytes);

    struct Received {
        std::span<const std::uint8_t> data;
        const TcpUrgency& urgency;
        int receiver;  // -1: it is on another host
    };
    // With its urgent mark, if it had one.
    [[nodiscard]] Result<> fill(const Received& end, int sender);

    // Does this socket hold more than its buffer is said to? Asked once, when it is filled.
    [[nodiscard]] bool is_over(int fd) { return over_.erase(fd) != 0; }

  private:
    const StillWanted& still_wanted_;
    std::set<int> over_;
};

}  // namespace cairn::restart
