// Who may have the debugger do something now. Ranks are run by one thread, one command at a time, whoever
// asks: the terminal or a page. What comes meanwhile is told so; a look (what a page wants to show of an
// event that the mouse is at) gives way to everything.
#pragma once

#include <pthread.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/fd.h"
#include "mpi/debug/web/server.h"

namespace cairn::mpi::debug::web {

struct Asked {
    bool look = false;
    std::string line;         // a command
    std::uint64_t event = 0;  // of a look: its index in the trace
    Respond respond;
};

class Desk {
  public:
    // By the thread that runs ranks.
    [[nodiscard]] static Result<std::unique_ptr<Desk>> open();

    // Server::repeat, by which what runs is given up. Before anybody asks.
    using Repeat = std::function<void(std::function<bool()>)>;
    void use(Repeat repeat) { repeat_ = std::move(repeat); }

    // In any thread.
    void ask(Asked asked);
    void give_up(const Respond& respond);

    // The rest is for the thread that runs ranks. Readable when somebody has asked for something.
    [[nodiscard]] int descriptor() const { return asked_.get(); }
    // What has been asked for, which runs from now on until end().
    [[nodiscard]] std::optional<Asked> take();
    // A line of the terminal's runs from now on.
    void begin(const std::string& line);
    void end();

  private:
    Desk() = default;
    // Gives up what runs, again and again until it is over, for a signal that comes just before the thread
    // that runs ranks begins to wait wakes nobody. A look is given up after a while by itself. False: it is
    // over.
    [[nodiscard]] bool press(std::uint64_t number);
    void run(const std::string& line, bool look, bool terminal);

    pthread_t owner_ = ::pthread_self();
    Fd asked_;  // an eventfd
    std::mutex mutex_;
    std::optional<Asked> next_;
    struct Running {
        bool look = false;
        std::string line;
        bool terminal = false;
        std::uint64_t number = 0;
        std::chrono::steady_clock::time_point until;  // of a look
    };
    std::optional<Running> running_;
    std::uint64_t number_ = 0;  // of the last that ran
    bool pressing_ = false;
    Repeat repeat_;
};

}  // namespace cairn::mpi::debug::web
