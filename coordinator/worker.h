// One run of cairn-capture (docs/capture-protocol.md): started, listened to, ended.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "coordinator/json.h"

namespace cairn::coordinator {

// $CAIRN_CAPTURE, else cairn-capture beside this program.
[[nodiscard]] std::string capture_program();

class Worker {
  public:
    using Clock = std::chrono::steady_clock;
    enum class Heard { message, end, late, interrupted };

    // Starts the program and sends it the request, and with it these descriptors, which are its alone then.
    [[nodiscard]] static Result<std::unique_ptr<Worker>> start(boost::asio::io_context& io,
                                                               const std::string& program,
                                                               const Json& request,
                                                               std::vector<Fd> descriptors = {});
    ~Worker();

    // Waits for the next message until `deadline`. `message` holds it afterwards.
    [[nodiscard]] boost::asio::awaitable<Heard> listen(Clock::time_point deadline);
    Json message;
    std::vector<Fd> descriptors;  // that came with messages

    // Answers the worker. False: it can't take it, or has gone; its end will be heard.
    bool say(const Json& answer);

    // "pid 12", and whether somebody has stopped it.
    [[nodiscard]] std::string describe() const;
    [[nodiscard]] bool is_stopped() const;

    // Ends a listen() under way, now or the next one.
    void interrupt();

    // Closes our end, which makes the worker give up; waits for its exit, after `grace` with SIGKILL: then
    // the kernel lets go of every process that it holds. Returns what can be said about its end: "" for a
    // plain exit, "killed by signal 11", "exit code 3: <last words on stderr>".
    [[nodiscard]] boost::asio::awaitable<std::string> finish(std::chrono::milliseconds grace);

  private:
    struct Words;  // what it says on stderr

    Worker(boost::asio::io_context& io, int socket, int pidfd, pid_t pid, std::shared_ptr<Words> words);

    boost::asio::posix::stream_descriptor socket_, process_;
    boost::asio::steady_timer timer_;
    pid_t pid_;
    std::shared_ptr<Words> words_;
    bool interrupted_ = false, reaped_ = false;
    std::shared_ptr<char> alive_ = std::make_shared<char>();  // for handlers that may be called afterwards
};

}  // namespace cairn::coordinator
