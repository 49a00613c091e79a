// Those who call a restart: each says a token first, which says what connection he means, and then has to
// prove that connection's key, as he is proved it (common/channel/channel.h). Whoever else comes (a client of
// the program that listened there, a scanner, somebody who has seen the token on its way) is heard beside the
// others: nobody waits for him.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/channel/channel.h"
#include "common/error.h"
#include "common/fd.h"
#include "resources/socket/restore_addresses.h"

namespace cairn::restart {

class TcpCallers {
  public:
    static constexpr std::size_t token_size = 32;

    // What a caller needs to get in. The token is no secret.
    struct Ticket {
        std::string token;
        Key key;
    };
    // Who got in: both ends have proved themselves.
    struct Came {
        Fd fd;
        std::unique_ptr<Channel> channel;
    };

    // One listener for all connections that come to the same address; `make`: a socket of this domain. The
    // port that it has.
    [[nodiscard]] Result<std::uint16_t> listen(const Address& address, int domain,
                                               const std::function<Fd()>& make);

    // A fresh one, good for one caller.
    [[nodiscard]] Result<Ticket> expect();

    // Who has it; no descriptor: nobody has come until then.
    [[nodiscard]] Came take(const std::string& token, std::chrono::milliseconds patience);

    // Waits for events of `fd` (what poll(2) says of it then), and meanwhile hears those who call: their
    // other ends need answers, whatever is waited for here. At most 200 ms.
    short wait(int fd, short events, std::chrono::milliseconds patience);

    // Those who have said a token that is expected, and could not prove its key.
    [[nodiscard]] std::size_t unproved() const { return unproved_; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Listener {
        Fd fd;
        std::uint16_t port = 0;
    };
    struct Caller {
        Fd fd;
        std::string said;                  // of the token
        std::unique_ptr<Channel> channel;  // behind a token that is expected
        Clock::time_point until;
    };
    enum class Heard { more_to_come, nonsense, proved };

    void accept_from(const Listener& listener);
    void make_room();
    [[nodiscard]] Heard hear(Caller& caller) const;
    [[nodiscard]] static Heard hear_proof(Caller& caller);
    void hear_all();

    std::map<std::string, Listener> listeners_;
    std::deque<Caller> callers_;  // the oldest first
    std::map<std::string, Key> expected_;
    std::map<std::string, Came> came_;
    std::size_t unproved_ = 0;
};

}  // namespace cairn::restart
