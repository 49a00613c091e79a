// The coordinator of a session: puts the pieces together and answers the verbs of docs/protocol.md.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/session.h"
#include "coordinator/checkpointer.h"
#include "coordinator/console.h"
#include "coordinator/gate.h"
#include "coordinator/group.h"
#include "coordinator/hosts.h"
#include "coordinator/json.h"
#include "coordinator/keeper.h"
#include "coordinator/part_checkpoint.h"
#include "coordinator/regions.h"
#include "coordinator/registry.h"
#include "coordinator/restart_barrier.h"
#include "coordinator/server.h"
#include "coordinator/settings.h"
#include "coordinator/startup.h"
#include "coordinator/uplink.h"

namespace cairn::coordinator {

// What governs this process and couldn't be changed (common/own_process.h).
struct Surround {
    std::vector<std::string> limits;  // a checkpoint may fail for them: said to who launches
    std::vector<std::string> notes;   // for the log
};

class Coordinator {
  public:
    // Holds the session's lock.
    Coordinator(boost::asio::io_context& io, Settings settings, Session session, RegionFile owners,
                Console::Kind kind, Surround surround = {}, Lock lock = {});
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
    void region(const Json& request, const Reply& reply);
    void checkpoint(const Json& request, const Sink& sink);
    void kill(const Sink& sink);
    void list(const Sink& sink);
    void interval(const Json& request, const Sink& sink);
    [[nodiscard]] std::string interval_problem(std::chrono::milliseconds every) const;
    [[nodiscard]] std::string limits_note();
    [[nodiscard]] Json status();

    // several_hosts.cpp: the root's side
    [[nodiscard]] Result<> start_hosts();
    [[nodiscard]] Result<Key> key() const;
    [[nodiscard]] Hosts::Handler hosts_handler();
    [[nodiscard]] Result<Json> welcome(const Json& greeting);
    void host_asks(Host& host, std::uint64_t client, const Json& request);
    void list_all(const Sink& sink);
    void kill_all(const Sink& sink);
    // Asks every other host; `heard` gets what each says, `done` is called once when all have said done or
    // failed, or were late.
    void ask_hosts(const Json& order, std::function<void(const Host&, const Json&)> heard,
                   std::function<void()> done);
    void count_starting();
    [[nodiscard]] Result<Json> take_in(const Json& request, const std::string& folder);

    // relay.cpp: another host's side
    [[nodiscard]] Result<> start_relay();
    void relay_asks(const std::shared_ptr<Peer>& peer, const Json& request);
    void answered(std::uint64_t client, const Json& event);
    void ordered(std::uint64_t conversation, const Json& order);
    void ask_root(Peer::Id client, const Json& request);
    void send_waiting();
    void turn_away(ExitCode code, const std::string& why);
    [[nodiscard]] bool parts_busy() const;
    void root_lost(const std::string& why);
    [[nodiscard]] Json greeting() const;
    [[nodiscard]] static Json member_json(const Member& member);

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
    void interval_missed(const std::string& why);
    void check_idle();
    void write_files();
    void finish();
    void on_signal();

    // What a new coordinator needs and the region doesn't say: state.json.
    void note_ckptdir(const std::string& folder);  // for whoever looks into the region
    void load_state();
    void save_state();

    boost::asio::io_context& io_;
    Settings settings_;
    Session session_;
    Regions regions_;
    Surround surround_;
    bool limits_told_ = false;  // to somebody who launched
    Group group_;
    Registry registry_;
    Gate gate_;
    RestartBarrier barrier_;
    Checkpointer checkpointer_;
    Server server_;
    Keeper keeper_;
    Console console_;
    boost::asio::signal_set signals_;
    boost::asio::steady_timer interval_timer_, idle_timer_, quit_timer_;
    Hosts hosts_;
    boost::asio::thread_pool disk_{1};
    struct Question {  // of a client of a relay's
        std::weak_ptr<Peer> peer;
        Json id;
        std::string verb, directory;
        bool restarting = false;
    };
    std::unique_ptr<Uplink> uplink_;
    std::map<Peer::Id, Question> questions_;
    std::deque<std::pair<Peer::Id, Json>> waiting_;  // for the root to answer at all
    boost::asio::steady_timer patience_;
    Json root_state_;
    std::map<std::uint64_t, std::shared_ptr<PartCheckpoint>> parts_;  // by conversation
    std::map<pid_t, Starting> starting_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
    Json last_;
    std::string saved_state_;
    std::uint64_t intervals_missed_ = 0;
    std::set<std::string> intervals_told_;
    std::string interval_trouble_;  // why the last one was not kept; "": it was
    bool quitting_ = false, idle_armed_ = false;
};

}  // namespace cairn::coordinator
