// The root of a computation, which may be on several hosts: has the group's ids, the barrier of restarts, the
// checkpoints, and the hosts that take part.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "coordinator/checkpointer.h"
#include "coordinator/group.h"
#include "coordinator/hosts.h"
#include "coordinator/restart_barrier.h"
#include "coordinator/role.h"

namespace cairn::coordinator {

class Root final : public Role {
  public:
    explicit Root(Office office);

    void recall(const Memory& memory) override;
    [[nodiscard]] Memory memory() const override;
    [[nodiscard]] Result<> start() override;
    void quit() override;
    [[nodiscard]] bool at_work() const override { return checkpointer_.busy(); }
    void stop() override { hosts_.stop(); }

    void joined(const Member& member) override;
    void left(const Member& member) override;
    void asked_by(const Member& member) override;
    void starting() override;

    void ask(const Client& client, const Json& request, const Sink& sink) override;
    void closed(Peer::Id client) override { barrier_.disconnected(client); }
    [[nodiscard]] bool restarts(Peer::Id client) const override { return barrier_.knows(client); }
    [[nodiscard]] bool hears_events() const override { return true; }
    [[nodiscard]] bool idle() const override;

  private:
    void entered(const std::string& uid, const std::string& who);
    void gone(const std::string& uid, ProgramId pid, const std::string& name);
    void changed();
    [[nodiscard]] CheckpointOrder session_order() const;  // by the session's settings

    void set_interval(std::chrono::milliseconds interval);
    void arm_interval();
    void interval_missed(const std::string& why);
    [[nodiscard]] std::string interval_problem(std::chrono::milliseconds every) const;

    // root_verbs.cpp. answer(): the verbs that a client here and one of another host's have in common;
    // `local`: its processes are this host's. False: there is no such verb.
    bool answer(Peer::Id client, bool local, const Json& request, const Sink& sink);
    [[nodiscard]] Result<Json> hello(const wire::Hello& wishes, const std::string& folder);
    [[nodiscard]] wire::Status status() const;
    void save_on(const wire::RestartJoin& join);
    void list(const Sink& sink);
    void kill(const Sink& sink);
    void checkpoint(const Json& request, const Sink& sink);
    void interval(const Json& request, const Reply& reply);

    // root_hosts.cpp
    [[nodiscard]] Hosts::Handler hosts_handler();
    [[nodiscard]] Result<wire::Welcome> welcome(const wire::HostGreeting& greeting);
    void host_asks(Host& host, std::uint64_t client, const Json& request);
    // Asks every other host; `heard` gets what each says, `done` is called once when all have said done or
    // failed, or were late.
    void ask_hosts(const Json& order, const std::function<void(const Host&, const Json&)>& heard,
                   std::function<void()> done);

    Office s_;
    Registry& registry_;
    Group group_;
    RestartBarrier barrier_;
    Hosts hosts_;
    Checkpointer checkpointer_;
    boost::asio::steady_timer interval_timer_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
    std::optional<wire::CheckpointDone> last_;
    std::uint64_t intervals_missed_ = 0;
    std::set<std::string> intervals_told_;
    std::string interval_trouble_;  // why the last one was not kept; "": it was
    bool quitting_ = false;
};

}  // namespace cairn::coordinator
