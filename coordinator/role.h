// What a session's coordinator is in a computation: its root, or on another host a relay, which asks the root
// and obeys it. The coordinator keeps the session; what is asked of it, and who comes and goes, it hands on
// to its role.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <vector>

#include "common/channel/key.h"
#include "common/error.h"
#include "common/session.h"
#include "coordinator/json.h"
#include "coordinator/peer.h"
#include "coordinator/programs.h"
#include "coordinator/regions.h"
#include "coordinator/settings.h"

namespace cairn::coordinator {

// What a role has of the session, and may do to it.
struct Office {
    boost::asio::io_context& io;
    const Session& session;
    Settings& settings;
    Regions& regions;
    Programs& programs;
    const std::vector<std::string>& limits;  // of this process, because of which a checkpoint may fail
    Sink everybody;                          // console and subscribers
    std::function<void(const std::string& text)> note;
    // A program may join: the rest of `done`, which is the session's. The program counts as starting.
    std::function<void(Json& done, pid_t pid)> take_in;
    std::function<void()> save_state, check_idle;
    std::function<void()> check_folder;  // before something is done there
};

// Who asks: a client of the session's socket, or the console (without a pid).
struct Client {
    Peer::Id id = 0;
    pid_t pid = 0;
    // The folder it is in; "/" if that can't be told.
    [[nodiscard]] std::string folder() const;
};

// What the hosts of a computation prove to each other.
[[nodiscard]] Result<Key> key_of(const Settings& settings, const Session& session);

class Role {
  public:
    // What a new coordinator needs and the region doesn't say.
    struct Memory {
        std::string cid;
        Json last;  // the newest checkpoint's `done`
    };

    virtual ~Role() = default;

    // What the coordinator that died knew, if processes of its session live. Before start().
    virtual void recall(const Memory& memory) = 0;
    [[nodiscard]] virtual Memory memory() const = 0;
    // The registered processes are known.
    [[nodiscard]] virtual Result<> start() = 0;
    // Gives up what is under way. Then come turns for cleaning up, until at_work() says no, and stop().
    virtual void quit() = 0;
    [[nodiscard]] virtual bool at_work() const = 0;  // on a checkpoint
    virtual void stop() = 0;

    virtual void joined(const Member& member) = 0;
    virtual void left(const Member& member) = 0;
    // A program wants a checkpoint. answer_member() of coordinator/attempt.h tells it how that has ended.
    virtual void asked_by(const Member& member) = 0;
    virtual void starting() = 0;  // Programs::starting() has changed

    // Everything but what the coordinator answers itself: region, subscribe, quit. The last event of the
    // answer is done or failed.
    virtual void ask(const Client& client, const Json& request, const Sink& sink) = 0;
    // A client has gone.
    virtual void closed(Peer::Id client) = 0;
    // The connection belongs to a restart, also between its answers.
    [[nodiscard]] virtual bool restarts(Peer::Id client) const = 0;
    // The events of the computation are told to everybody here.
    [[nodiscard]] virtual bool hears_events() const = 0;

    // Nothing is left that a session without programs would have to go on for.
    [[nodiscard]] virtual bool idle() const = 0;
};

}  // namespace cairn::coordinator
