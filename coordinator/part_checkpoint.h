// This host's part of a checkpoint over several hosts: does what the root orders, step by step, and reports.
// The root uses one for its own processes, a relay one for its host's. docs/protocol.md, "Between
// coordinators".
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/session.h"
#include "common/wire/hosts.h"
#include "coordinator/capture_run.h"
#include "coordinator/json.h"
#include "coordinator/publish.h"
#include "coordinator/registry.h"

namespace cairn::coordinator {

class PartCheckpoint : public std::enable_shared_from_this<PartCheckpoint> {
  public:
    struct Surroundings {
        boost::asio::io_context& io;
        boost::asio::thread_pool& disk;
        const Session& session;
        const Regions& regions;
        Registry& registry;
        std::string host;     // what this one is called
        std::string ckptdir;  // this host's own folder for checkpoints; "": the root's
        std::function<boost::asio::awaitable<std::size_t>()> kill_group;
        std::function<std::vector<std::string>()> folders_in_use;
    };

    PartCheckpoint(Surroundings surroundings, std::function<void(const Json& event)> report);

    // `order` has a field `do`: prepare (the first), capture, pass, seal, publish, finish, give_up.
    void order(const Json& order);
    // The root can't be reached any more.
    void give_up(const std::string& reason);
    [[nodiscard]] bool over() const { return over_; }

  private:
    boost::asio::awaitable<void> run();
    boost::asio::awaitable<Result<>> take();
    struct Part;  // what one step leaves to the next
    boost::asio::awaitable<Result<>> prepare(Part& part);
    boost::asio::awaitable<Result<>> capture(Part& part);
    boost::asio::awaitable<Result<>> seal(Part& part);
    boost::asio::awaitable<Result<>> publish(Part& part);
    boost::asio::awaitable<Result<>> finish(Part& part);
    // The next order, which must be an M.
    template <class M>
    boost::asio::awaitable<Result<M>> next();

    Surroundings s_;
    std::function<void(const Json&)> report_;
    boost::asio::steady_timer wake_;
    std::deque<Json> orders_;
    std::string given_up_;
    CheckpointLimits limits_;
    CaptureRun capture_;
    bool begun_ = false, over_ = false, withdraw_ = false;
};

}  // namespace cairn::coordinator
