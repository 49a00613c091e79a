// Another host's side of a computation over several hosts: asks the root for whoever asks here, and does what
// the root orders.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/part_checkpoint.h"
#include "coordinator/role.h"
#include "coordinator/uplink.h"

namespace cairn::coordinator {

class Relay final : public Role {
  public:
    explicit Relay(Office office);

    // Of which computation the programs were when an earlier relay of this session died, whatever the root
    // serves now.
    void recall(const Memory& memory) override { memory_ = memory; }
    [[nodiscard]] Memory memory() const override { return memory_; }
    [[nodiscard]] Result<> start() override;
    void quit() override { give_up("the host's coordinator was told to quit"); }
    [[nodiscard]] bool at_work() const override;
    void stop() override;

    void joined(const Member& member) override;
    void left(const Member& member) override;
    void asked_by(const Member& member) override;
    void starting() override;

    void ask(const Client& client, const Json& request, const Sink& sink) override;
    void closed(Peer::Id client) override;
    [[nodiscard]] bool restarts(Peer::Id client) const override { return questions_.contains(client); }
    [[nodiscard]] bool hears_events() const override { return false; }
    [[nodiscard]] bool idle() const override { return questions_.empty() && !at_work(); }

  private:
    struct Question {  // of a client
        Client client;
        Sink sink;
        std::string verb;
        bool restarting = false;
        std::string directory;  // that it restarts from
    };

    [[nodiscard]] Uplink::Handler handler();
    [[nodiscard]] wire::HostGreeting greeting() const;
    void serves(const std::string& cid);  // the root
    // What this host changes of a request before the root gets it. An error is the answer.
    [[nodiscard]] Result<> adapt(Question& question, Json& request);
    void ask_root(Peer::Id client, const Json& request);
    void send_waiting();
    void turn_away(ExitCode code, const std::string& why);
    void answered(Peer::Id client, const Json& event);

    void ordered(std::uint64_t conversation, const Json& order);
    void begin_part(std::uint64_t conversation, const Json& order, const Reply& report);
    void give_up(const std::string& reason);  // the parts of checkpoints that are under way
    void root_lost(const std::string& why);

    Office s_;
    Registry& registry_;
    Memory memory_;
    std::map<Peer::Id, Question> questions_;
    std::deque<std::pair<Peer::Id, Json>> waiting_;  // for the root to answer at all
    boost::asio::steady_timer patience_;
    boost::asio::thread_pool disk_{1};
    std::map<std::uint64_t, std::shared_ptr<PartCheckpoint>> parts_;  // by conversation
    std::optional<Uplink> uplink_;
};

}  // namespace cairn::coordinator
