// What a person sees of the coordinator and types to it: on a terminal with line editing and colours, from a
// pipe in plain lines, as a daemon only into the log.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "coordinator/json.h"

namespace cairn::coordinator {

class Console {
  public:
    enum class Kind { terminal, pipe, log };

    struct Actions {
        std::function<void(const Json& request)> ask;  // a verb; its events come back by show()
        std::function<void()> ended;                   // Ctrl-D on a terminal
    };

    Console(boost::asio::io_context& io, Kind kind, Actions actions);
    ~Console();
    Console(const Console&) = delete;
    Console& operator=(const Console&) = delete;

    void start(const std::string& greeting);
    // The terminal as it was. No more is read.
    void stop();
    // The terminal has hung up: nothing is shown or read from now on.
    void lose_terminal();

    void show(const Json& event);

    // One line of input as a request, or an event {"event":"failed"} / "help" to be shown. For tests.
    [[nodiscard]] static Json parse(const std::string& line);

  private:
    void read_terminal();
    void read_pipe();
    void line_typed(const std::string& line);
    void print(const std::string& text, const char* colour = "");
    void print_progress(const std::string& text);
    void clear_line();
    void restore_line();
    static void line_handler(char* line);

    boost::asio::io_context& io_;
    Kind kind_;
    Actions actions_;
    boost::asio::posix::stream_descriptor input_;
    std::string pending_;
    bool colours_ = false, reading_ = false, progress_shown_ = false, list_begun_ = false;
};

}  // namespace cairn::coordinator
