// Keeps the session's folder: notices when it, or something in it, is removed (logind at a logout, a cleaner
// of /tmp, a hand), makes it again and says so. The programs notice nothing: they have the region mapped, and
// what they execute finds it by its path again.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "common/error.h"
#include "common/fd.h"
#include "common/session.h"
#include "coordinator/acceptor.h"

namespace cairn::coordinator {

class Keeper {
  public:
    struct Actions {
        std::function<Result<>()> listen;  // bind the session's socket anew
        std::function<void()> write;       // everything else that is in the folder
        std::function<void(const std::string&)> note;
    };

    // `lock`: the session's lock file, `name`: see name_lock.h, -1 for none.
    Keeper(boost::asio::io_context& io, const Session& session, Fd lock, Fd name, Actions actions);

    // The region is there, and the socket is bound.
    [[nodiscard]] Result<> start();
    void stop();

    // What is missing is made again. Cheap: for use before every action.
    void check();

  private:
    struct Identity {  // of a file, by its path
        std::uint64_t device = 0, inode = 0;
        bool operator==(const Identity&) const = default;
    };
    [[nodiscard]] static Identity identity(const std::string& path, bool follow);
    [[nodiscard]] bool all_there() const;
    [[nodiscard]] Result<> make_again();
    [[nodiscard]] Result<> region_again();
    [[nodiscard]] Result<> lock_again();
    void watch();
    void read_events();
    void look_later(std::chrono::milliseconds after);
    void remember();
    void touch();
    [[nodiscard]] std::string spare() const;

    const Session& session_;
    Fd lock_, region_, folder_, place_;  // the last two: locked against cleaners
    Actions actions_;
    Acceptor asked_;
    Fd name_;
    boost::asio::posix::stream_descriptor events_;
    boost::asio::steady_timer later_, touching_;
    Identity region_file_, socket_file_;
    int watched_ = -1;
    bool stopped_ = false;
    std::string trouble_;
};

}  // namespace cairn::coordinator
