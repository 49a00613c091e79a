// The root's side of several hosts: listens for relays, knows who runs where, orders and hears. Only with a
// key.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/wire/hosts.h"
#include "coordinator/acceptor.h"
#include "coordinator/json.h"
#include "coordinator/link.h"
#include "coordinator/network.h"

namespace cairn::coordinator {

struct Host {
    std::uint64_t id = 0;
    std::string name;
    std::string site;                    // where it calls from; see peer_site()
    std::vector<std::string> addresses;  // what others reach it by first
    std::shared_ptr<Link> link;          // none: it has been lost, and its processes may live
    std::map<std::string, wire::HostMember> members;
    std::set<std::uint64_t> clients;  // of its Unix socket, that asked us something
    std::size_t starting = 0;         // programs that were told yes and have not registered
    std::chrono::steady_clock::time_point lost_at{};
};

class Hosts {
  public:
    struct Handler {
        // A relay has proved itself and says who it is. What it is answered, or why it is refused.
        std::function<Result<wire::Welcome>(const wire::HostGreeting& greeting)> welcome;
        std::function<void(const wire::HostMember&)> joined, left;
        std::function<void(Host& host, std::uint64_t client, const Json& request)> ask;
        std::function<void(const Host& host, std::uint64_t client)> client_gone;
        std::function<void()> changed;
        std::function<void(const std::string& text)> note;
    };

    Hosts(boost::asio::io_context& io, Handler handler)
        : io_(io),
          handler_(std::move(handler)),
          acceptor_(io, [this](Fd socket) { accepted(std::move(socket)); }) {}

    // Where it listens then, in words.
    [[nodiscard]] Result<std::string> listen(const Endpoint& endpoint, const Key& key);
    void stop();

    [[nodiscard]] const std::map<std::uint64_t, Host>& all() const { return hosts_; }
    [[nodiscard]] const Host* find(std::uint64_t id) const;
    [[nodiscard]] std::size_t members() const;
    [[nodiscard]] std::size_t starting() const;
    void tell_all(const Json& message);
    void answer(std::uint64_t host, std::uint64_t client, const Json& event);
    void raise_starting(std::uint64_t host);
    // Hosts that are lost have no processes any more, as far as we are concerned.
    void forget_lost();

    // A conversation with a host: what it reports comes to `heard`, {"event":"lost"} at the end of its link.
    using Heard = std::function<void(const Json& event)>;
    [[nodiscard]] std::uint64_t open(std::uint64_t host, Heard heard);
    void order(std::uint64_t conversation, const Json& order);
    void close(std::uint64_t conversation) { conversations_.erase(conversation); }

  private:
    struct Conversation {
        std::uint64_t host;
        Heard heard;
    };
    // Has not said who it is, or was refused.
    struct Stranger {
        std::shared_ptr<Link> link;
        std::string address, site;
        std::uint64_t number = 0;  // the higher the later
    };
    static constexpr std::size_t most_strangers = 64, most_hosts = 4096;
    // More clients than a relay has at once.
    static constexpr std::size_t most_clients = 1024;

    using Members = std::vector<wire::HostMember>;

    void accepted(Fd socket);
    void make_room();
    void greeted(std::shared_ptr<Link> link, const Json& greeting);
    void said(std::uint64_t id, const Json& message);
    void lost(std::uint64_t id, const std::string& why);
    [[nodiscard]] Result<> set_members(Host& host, const Members& list);
    [[nodiscard]] Result<> join(Host& host, const Members& list);
    [[nodiscard]] Result<> obey(Host& host, const Json& message);
    void turn_out(std::uint64_t id, const Error& why);

    boost::asio::io_context& io_;
    Handler handler_;
    Key key_;
    LinkLimits limits_;
    Acceptor acceptor_;
    std::map<const Link*, Stranger> strangers_;
    std::map<const Link*, std::uint64_t> host_of_;
    std::map<std::uint64_t, Host> hosts_;
    std::map<std::uint64_t, Conversation> conversations_;
    std::uint64_t next_ = 1, next_conversation_ = 1, next_stranger_ = 1;
};

}  // namespace cairn::coordinator
