// A capture of this host's processes: what cairn-capture is asked for, how long it may take, and what comes
// of it. The same for a checkpoint of this host alone and for a part of one over several hosts.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/schema/manifest.h"
#include "common/session.h"
#include "common/wire/capture.h"
#include "coordinator/attempt.h"
#include "coordinator/json.h"
#include "coordinator/registry.h"
#include "coordinator/worker.h"

namespace cairn::coordinator {

struct CheckpointLimits {
    std::chrono::milliseconds standing{10'000};  // the group stands still,
    std::chrono::milliseconds standing_each{
        20};                                  // and this for each process: all take their turn on the CPUs
    std::chrono::milliseconds margin{3'000};  // for the worker to notice that itself
    std::chrono::milliseconds no_progress{120'000};  // no byte was written

    // So long may this many programs stand still.
    [[nodiscard]] std::chrono::milliseconds for_all(std::size_t processes) const {
        return standing + standing_each * processes;
    }
};

// What is asked of a checkpoint, on one host or several.
struct CheckpointOrder {
    std::string ckptdir;             // absolute
    bool ckptdir_asked_for = false;  // for this checkpoint, not the session's: every host writes there
    bool kill = false;
    bool self_contained = false;                       // images hold unmodified pages of files too
    bool track_mem = false;                            // the kernel is asked which pages were written to
    bool without_strangers = false;                    // who isn't registered is left out
    std::string external;                              // common/external_policy.h
    std::string landlock;                              // common/landlock_policy.h
    std::string files, with;                           // common/files_policy.h
    std::string compress;                              // common/compression.h
    std::optional<std::chrono::milliseconds> timeout;  // of the whole checkpoint

    bool operator==(const CheckpointOrder&) const = default;
    // As this order's limit allows it.
    [[nodiscard]] std::chrono::milliseconds at_most(std::chrono::milliseconds time) const {
        return timeout ? std::min(time, *timeout) : time;
    }
};

struct CaptureOrder {
    std::string directory, cid;
    std::uint32_t generation = 0;
    bool self_contained = false;     // images hold unmodified pages of files too
    bool track_mem = false;          // the kernel is asked which pages were written to
    bool without_strangers = false;  // who isn't registered is left out
    bool hold = false;               // the processes stand still afterwards: they are to be killed
    bool joint = false;              // other hosts take their parts at the same time
    std::string external;            // common/external_policy.h
    std::string landlock;            // common/landlock_policy.h
    std::string files, with;         // common/files_policy.h
    std::string compress;            // common/compression.h
    std::string host;                // what this one is called in the manifest; "": as it calls itself
    std::chrono::milliseconds standing{0};
    std::optional<std::chrono::milliseconds> timeout;  // of the whole checkpoint, which began at
    Worker::Clock::time_point begun = Worker::Clock::now();
};

struct Captured {
    wire::CaptureDone said;
    schema::Manifest manifest;
    // Of one that ends while the rest is done: until it has, its copy-on-write children may be there, and
    // nobody is to take them for members.
    std::unique_ptr<Attempt> attempt;
    // Has to be finished. Who is to be killed stands still as long as it has not: nothing is done after the
    // checkpoint that a restart would do again. None (a part of a joint checkpoint): it has ended.
    std::unique_ptr<Worker> held;
};

class CaptureRun {
  public:
    // `given_up`: why, as soon as it is not empty; interrupt() is called then. All is borrowed.
    CaptureRun(boost::asio::io_context& io, const Session& session, const Regions& regions,
               Registry& registry, const CheckpointLimits& limits, const std::string& given_up)
        : io_(io),
          session_(session),
          regions_(regions),
          registry_(registry),
          limits_(limits),
          given_up_(given_up) {}

    // `heard` gets every message but the last. `order` and `heard` have to live until it is over. However it
    // ends, nobody stands still but by Captured::held, and the copy-on-write children are gone when that has
    // ended.
    [[nodiscard]] boost::asio::awaitable<Result<Captured>> take(
        const CaptureOrder& order, const std::function<void(const Json&)>& heard);
    void interrupt();
    void say(const wire::PassedBarrier& answer);  // to the capture, if one is at work

  private:
    // How far it is.
    struct Course {
        std::string phase = "stop", waiting;
        std::string obstacle;  // what had to pass when the passes were begun again
        std::uint64_t bytes = 0;
        Worker::Clock::time_point standing_until, progress_at;
        bool overdue = false;  // it has not noticed that it is late
    };

    boost::asio::awaitable<Result<wire::CaptureDone>> listen(Worker& worker, const CaptureOrder& order,
                                                             Course& course,
                                                             const std::function<void(const Json&)>& heard);
    [[nodiscard]] Error late(const Worker& worker, const CaptureOrder& order, bool by_request,
                             const Course& course) const;
    void keep_marks(const std::vector<wire::MarksOf>& told, std::vector<Fd> userfaults);
    void note(const Json& message, const CaptureOrder& order, Course& course) const;

    boost::asio::io_context& io_;
    const Session& session_;
    const Regions& regions_;
    Registry& registry_;
    const CheckpointLimits& limits_;
    const std::string& given_up_;
    Worker* worker_ = nullptr;
};

// Room for a checkpoint of this host's processes.
struct Room {
    std::string root;
    std::uint64_t needed = 0;  // bytes at most
    [[nodiscard]] std::string figures() const;
    [[nodiscard]] Result<> check() const;
};
[[nodiscard]] Room room_for(const Registry& registry, const std::string& root);

// Removes all but the newest `keep` generations; 0: all stay.
[[nodiscard]] boost::asio::awaitable<void> prune_old(boost::asio::thread_pool& disk, const std::string& root,
                                                     const std::string& cid, std::uint32_t keep,
                                                     const std::vector<std::string>& in_use);

}  // namespace cairn::coordinator
