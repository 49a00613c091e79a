// The coordinator of a session: puts the pieces together and answers the verbs of docs/protocol.md.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <string>

#include "common/error.h"
#include "common/session.h"
#include "coordinator/checkpointer.h"
#include "coordinator/console.h"
#include "coordinator/gate.h"
#include "coordinator/group.h"
#include "coordinator/json.h"
#include "coordinator/region_file.h"
#include "coordinator/registry.h"
#include "coordinator/restart_barrier.h"
#include "coordinator/server.h"
#include "coordinator/settings.h"

namespace cairn::coordinator {

class Coordinator {
  public:
    // The session's lock is held by the caller.
    Coordinator(boost::asio::io_context& io, Settings settings, Session session, RegionFile region,
                Console::Kind kind);
    ~Coordinator();

    // From here on clients are answered.
    [[nodiscard]] Result<> start();

    // Gives up what is under way, tells the clients, ends io_context::run(). The programs go on.
    void quit(const std::string& why);

  private:
    struct Starting {  // a program that was told yes and has not registered
        std::unique_ptr<boost::asio::posix::stream_descriptor> process;
        std::unique_ptr<boost::asio::steady_timer> deadline;
    };

    // verbs.cpp
    void peer_asks(const std::shared_ptr<Peer>& peer, const Json& request);
    void console_asks(const Json& request);
    bool ask(const Json& request, const Sink& sink);  // the verbs that need no connection
    void hello(const std::shared_ptr<Peer>& peer, const Json& request, const Reply& reply);
    void checkpoint(const Json& request, const Sink& sink);
    void kill(const Sink& sink);
    void list(const Sink& sink) const;
    void interval(const Json& request, const Sink& sink);
    [[nodiscard]] Json status() const;

    void peer_closed(Peer& peer);
    void everybody(const Json& event, bool droppable);
    void note(const std::string& text);
    void joined(const Member& member);
    void left(const Member& member);
    void expect(pid_t pid);
    void expected(pid_t pid);

    boost::asio::awaitable<std::size_t> kill_group();
    void set_interval(std::chrono::milliseconds interval);
    void arm_interval();
    void check_idle();
    void finish();
    void on_signal();

    // What a new coordinator needs and the region doesn't say: state.json.
    void load_state();
    void save_state();

    boost::asio::io_context& io_;
    Settings settings_;
    Session session_;
    RegionFile region_;
    Group group_;
    Registry registry_;
    Gate gate_;
    RestartBarrier barrier_;
    Checkpointer checkpointer_;
    Server server_;
    Console console_;
    boost::asio::signal_set signals_;
    boost::asio::steady_timer interval_timer_, idle_timer_, quit_timer_;
    std::map<pid_t, Starting> starting_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
    Json last_;
    std::string saved_state_;
    bool quitting_ = false, idle_armed_ = false;
};

}  // namespace cairn::coordinator
