// `w` in the console: who waits where. cairn-stacks finds it out, as for `cairn list --waits`, and asks this
// coordinator as any client does; here its lines are only waited for, so that nothing else is kept from its
// turn.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

namespace cairn::coordinator {

class Look {
  public:
    using Line = std::function<void(const std::string& line)>;

    Look(boost::asio::io_context& io, std::string session) : io_(io), session_(std::move(session)) {}
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;
    ~Look() { end(); }

    // Each line that it prints, or why it prints none, goes to `line`. One at a time: while one is under way
    // nothing is begun anew.
    void begin(const Line& line);
    // What is under way ends at once.
    void end();

  private:
    struct Run;

    boost::asio::io_context& io_;
    std::string session_;
    std::weak_ptr<Run> run_;
};

}  // namespace cairn::coordinator
