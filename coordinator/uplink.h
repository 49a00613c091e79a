// A relay's side of several hosts: the one connection to the root, looked for again whenever it is lost.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/wire/hosts.h"
#include "coordinator/json.h"
#include "coordinator/link.h"
#include "coordinator/network.h"

namespace cairn::coordinator {

class Uplink {
  public:
    struct Handler {
        std::function<wire::HostGreeting()> greeting;  // who we are, but for the addresses
        std::function<void(const wire::Welcome& welcome)> connected;
        std::function<void(const std::string& why)> lost;
        std::function<void(const wire::State& state)> state;
        std::function<void(std::uint64_t client, const Json& event)> answer;
        std::function<void(std::uint64_t conversation, const Json& order)> order;
        std::function<void(const std::string& why)>
            refused;  // the root is there and doesn't want us: another key, a name
        std::function<void(const std::string& text)> note;
    };

    Uplink(boost::asio::io_context& io, Endpoint root, Key key, Handler handler);

    void start();
    void stop();
    [[nodiscard]] bool connected() const { return welcomed_; }
    // Why not, in words.
    [[nodiscard]] const std::string& problem() const { return problem_; }
    [[nodiscard]] std::string root() const { return root_.host + ":" + root_.port; }

    void joined(wire::HostMember member);
    void left(const std::string& uid);
    void starting(std::size_t count);
    void ask(std::uint64_t client, const Json& request);
    void gone(std::uint64_t client);
    void report(std::uint64_t conversation, const Json& event);

  private:
    void call_root();
    // An error: it isn't what the protocol says.
    [[nodiscard]] Result<> said(const Json& message);
    void refused(const std::string& why);
    void ended(const std::string& why);
    void flush();

    boost::asio::io_context& io_;
    Endpoint root_;
    Key key_;
    Handler handler_;
    boost::asio::steady_timer again_, batch_;
    std::shared_ptr<Link> link_;
    // Told once each turn: a script can start a thousand processes a second.
    std::vector<wire::HostMember> fresh_;
    std::vector<std::string> gone_;
    std::string problem_ = "it has not answered yet";
    bool welcomed_ = false, stopped_ = false, batching_ = false;
};

}  // namespace cairn::coordinator
