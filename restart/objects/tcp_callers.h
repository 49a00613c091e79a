// Those who call a restart: each says a token first, and who says one that is expected gets in. Whoever else
// comes (a client of the program that listened there, a scanner) is heard beside the others: nobody waits for
// him.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "common/error.h"
#include "common/fd.h"
#include "restart/objects/addresses.h"

namespace cairn::restart {

class TcpCallers {
  public:
    static constexpr std::size_t token_size = 32;

    // One listener for all connections that come to the same address; `make`: a socket of this domain. The
    // port that it has.
    [[nodiscard]] Result<std::uint16_t> listen(const Address& address, int domain,
                                               const std::function<Fd()>& make);

    // A fresh token.
    [[nodiscard]] std::string expect();

    // Who has said it; none: nobody has until then.
    [[nodiscard]] Fd take(const std::string& token, std::chrono::milliseconds patience);

  private:
    using Clock = std::chrono::steady_clock;
    struct Listener {
        Fd fd;
        std::uint16_t port = 0;
    };
    struct Caller {
        Fd fd;
        std::string said;
        Clock::time_point until;
    };
    enum class Heard { more_to_come, nonsense, token };

    void accept_from(const Listener& listener);
    [[nodiscard]] Heard hear(Caller& caller) const;
    void hear_all();
    void wait(std::chrono::milliseconds patience) const;

    std::map<std::string, Listener> listeners_;
    std::deque<Caller> callers_;  // the oldest first
    std::set<std::string> expected_;
    std::map<std::string, Fd> came_;
};

}  // namespace cairn::restart
