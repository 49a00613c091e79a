// A checkpoint over several hosts, as the root conducts it. docs/decisions/0007-several-hosts.md has the
// passes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/schema/manifest.h"
#include "common/wire/connections.h"
#include "common/wire/events.h"
#include "common/wire/hosts.h"
#include "coordinator/capture_run.h"
#include "coordinator/json.h"

namespace cairn::coordinator {

// A host that takes part.
struct Site {
    std::string host;
    std::vector<std::string> addresses;
    std::function<void(const Json& order)> order;
};

struct JointOrder {
    CheckpointOrder asked;
    std::string cid, session;
    std::uint32_t keep = 0;
    std::chrono::milliseconds standing;  // the programs of all hosts together
    CheckpointLimits limits;
};

class JointCheckpoint {
  public:
    using Clock = std::chrono::steady_clock;
    // Phases and progress, for who asked.
    using Tell = std::function<void(const Json& event, bool droppable)>;

    // Sites are added before take(); reports come by report(), from any site at any time.
    JointCheckpoint(boost::asio::io_context& io, JointOrder order, Tell tell);
    [[nodiscard]] std::size_t add(Site site);
    void report(std::size_t site, const Json& event);
    void give_up(const std::string& reason);

    // An error has told every site to give up. Error::passing: another try may go well.
    [[nodiscard]] boost::asio::awaitable<Result<wire::CheckpointDone>> take();

  private:
    struct State {
        Site site;
        std::string phase = "prepare", waiting, barrier;
        // What it said at the barrier.
        wire::Stopped stopped;
        wire::HostConnections connections;
        std::uint64_t bytes = 0, total = 0;
        std::uint32_t next = 1;  // the generation that is free there
        wire::CapturedPart captured;
        wire::Published published;
        bool answered = false, over = false, standing = true;
        std::optional<Error> failed;
    };

    using Condition = std::function<bool(const State&)>;
    // Until all sites fulfil it. Names those that don't at the deadline.
    boost::asio::awaitable<Result<>> all(const Condition& condition, Clock::time_point deadline,
                                         const char* what);
    [[nodiscard]] std::string awaited(const Condition& condition) const;
    boost::asio::awaitable<Result<>> all_answered(Clock::time_point deadline, const char* what);
    void order_all(const Json& order);
    [[nodiscard]] Result<> come_to_barrier(State& state, const wire::Barrier& barrier);
    void meet();
    [[nodiscard]] std::vector<Json> answers_at(const std::string& barrier);
    // What all hosts' parts are together; `bases`: so many parts come before each host's.
    [[nodiscard]] schema::Manifest whole(std::vector<std::int32_t>& bases) const;
    [[nodiscard]] Result<> hear(State& state, const Json& event);
    void show_phase(State& state, const wire::Phase& phase);
    void show_progress(State& state, const wire::Progress& progress);

    boost::asio::awaitable<Result<wire::CheckpointDone>> conduct();
    // Those that conduct() takes one after the other.
    boost::asio::awaitable<Result<>> prepare();
    boost::asio::awaitable<Result<>> capture();
    boost::asio::awaitable<Result<>> seal(const schema::Manifest& manifest,
                                          const std::vector<std::int32_t>& bases);
    boost::asio::awaitable<Result<>> publish(wire::CheckpointDone& done);
    boost::asio::awaitable<void> finish(wire::CheckpointDone& done);

    JointOrder order_;
    Tell tell_;
    boost::asio::steady_timer wake_;
    std::deque<State> sites_;
    std::string given_up_, shown_phase_;
    Clock::time_point begun_ = Clock::now(), progress_at_ = begun_, writing_since_ = begun_;
    std::uint32_t generation_ = 0;
    std::int64_t np_ = 0;  // processes, when all stood still
};

// The answer to the barrier `connections`: for each host what it has to know of its connections' other ends.
// `said[i]`: what host i said. Public for its test.
[[nodiscard]] std::vector<wire::MatchedConnections> match_connections(
    const std::vector<wire::HostConnections>& said);

}  // namespace cairn::coordinator
