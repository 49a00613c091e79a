// Checkpoints, one after the other: from the question to the published folder.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/session.h"
#include "coordinator/capture_run.h"
#include "coordinator/group.h"
#include "coordinator/hosts.h"
#include "coordinator/joint_checkpoint.h"
#include "coordinator/json.h"
#include "coordinator/publish.h"
#include "coordinator/regions.h"
#include "coordinator/registry.h"
#include "coordinator/told.h"

namespace cairn::coordinator {

class Checkpointer {
  public:
    struct Surroundings {
        boost::asio::io_context& io;
        const Session& session;
        const Regions& regions;
        Registry& registry;
        Group& group;
        Sink everybody;                                            // console and subscribers
        std::function<std::vector<std::string>()> folders_in_use;  // by restarts
        std::function<boost::asio::awaitable<std::size_t>()> kill_group;
        std::function<std::uint32_t()> keep;
        std::function<std::string()> ckptdir;  // the session's folder for checkpoints
        Hosts& hosts;                          // others that take part
        const std::string& host;               // what this one is called
        std::function<void(const wire::CheckpointDone& done)> published;
        std::function<void()> idle;  // no checkpoint is under way any more
    };

    explicit Checkpointer(Surroundings surroundings, CheckpointLimits limits = {});

    // The answer comes to `sink`: phases, progress, at last done or failed. See docs/protocol.md for who
    // shares whose.
    void ask(const CheckpointOrder& order, Sink sink, Told::Audience audience);

    [[nodiscard]] bool busy() const { return current_ != nullptr; }
    [[nodiscard]] std::optional<wire::UnderWay> status() const;

    // Gives up the checkpoint under way and those asked for behind it.
    void give_up(const std::string& reason);

  private:
    struct Job {
        CheckpointOrder order;
        std::vector<Sink> sinks;
        Told::Audience audience = Told::Audience::log;
        std::string phase;
        std::uint64_t bytes = 0, total = 0;
        std::uint32_t generation = 0;
        std::string directory;
        bool open = true;  // the group has not been asked to stop: who asks now may join
        // What its capture has left, which ends while the answer is on its way already.
        std::optional<Captured> ending{};
        std::chrono::steady_clock::time_point begun, writing_since;
    };

    void start_next();
    void tell(Job& job, const Json& event, bool droppable = false);
    boost::asio::awaitable<void> run(std::shared_ptr<Job> job);
    boost::asio::awaitable<Result<wire::CheckpointDone>> take(Job& job);
    struct OpenFolder;
    boost::asio::awaitable<Result<wire::CheckpointDone>> take_alone(Job& job);
    boost::asio::awaitable<Result<wire::CheckpointDone>> publish_alone(Job& job, OpenFolder& folder,
                                                                       Captured& captured);
    void relay(Job& job, const Json& message);
    void show(Job& job, const std::string& phase, const std::vector<std::string>& waiting = {});
    [[nodiscard]] Result<> check_members() const;
    boost::asio::awaitable<void> wait_for_first();
    // checkpointer_joint.cpp
    boost::asio::awaitable<Result<wire::CheckpointDone>> take_jointly(Job& job);
    boost::asio::awaitable<Result<wire::CheckpointDone>> try_jointly(Job& job);

    Surroundings s_;
    CheckpointLimits limits_;
    boost::asio::thread_pool disk_{1};
    std::shared_ptr<Job> current_;
    std::deque<std::shared_ptr<Job>> queue_;
    std::shared_ptr<JointCheckpoint> joint_;
    std::string given_up_;
    Told told_;
    std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    CaptureRun capture_;
};

}  // namespace cairn::coordinator
