// The coordinator of a session: keeps its folder, its socket and its programs, and hands on what is asked to
// what it is in the computation (role.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/session.h"
#include "coordinator/console.h"
#include "coordinator/gate.h"
#include "coordinator/json.h"
#include "coordinator/keeper.h"
#include "coordinator/look.h"
#include "coordinator/programs.h"
#include "coordinator/regions.h"
#include "coordinator/role.h"
#include "coordinator/server.h"
#include "coordinator/settings.h"
#include "coordinator/startup.h"

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
    [[nodiscard]] Office office();
    void peer_asks(const std::shared_ptr<Peer>& peer, const Json& request);
    void console_asks(const Json& request);
    void region(const Json& request, const Reply& reply);
    void take_in(Json& done, pid_t pid);
    void quit_asked(const Reply& reply);

    void everybody(const Json& event, bool droppable);
    void note(const std::string& text);
    void check_idle();
    void quit_if_idle_in(std::chrono::milliseconds time);
    [[nodiscard]] bool idle() const;
    void write_files();
    void finish();
    void on_signal();

    // What a new coordinator needs and the region doesn't say: state.json.
    void load_state();
    void save_state();

    boost::asio::io_context& io_;
    Settings settings_;
    Session session_;
    Regions regions_;
    Surround surround_;
    bool limits_told_ = false;  // to somebody who launched
    Programs programs_;
    Gate gate_;
    std::unique_ptr<Role> role_;
    Server server_;
    Keeper keeper_;
    Console console_;
    Look look_;
    boost::asio::signal_set signals_;
    boost::asio::steady_timer idle_timer_, quit_timer_;
    Peer::Id console_questions_;
    std::string saved_state_;
    bool quitting_ = false, idle_armed_ = false;
    std::vector<std::function<void()>> awaiting_end_;  // who asked for the end is told of it
};

}  // namespace cairn::coordinator
