// Where a process gets a region that it can't open: because it runs as another user, because it has forbidden
// itself to (Landlock), or because it is in a root folder or a mount namespace in which the file isn't.
//
// The session's folder is its owner's alone. A member that changes its user (su, sshd, a server that gives
// root up), and what it executes then, has to have a region that this user's processes may write into. So the
// coordinator listens on an abstract Unix socket and hands a descriptor to who connects, if the kernel says
// that it is a member, or a child of one: of the region of the user that it connects as. Nothing is read from
// it, nobody is waited for. An exec of a process that has changed its user is told the name, which nobody
// can have taken before us; the others ask by a name that follows from the region's path.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/error.h"
#include "common/fd.h"
#include "common/region.h"
#include "coordinator/acceptor.h"
#include "coordinator/regions.h"

namespace cairn::coordinator {

class Gate {
  public:
    // `admits`: whether this process may have a region: a member, a child of one, or one that was told to
    // begin and has changed its user before anybody looked. `gives`: it gets the region of this number now.
    Gate(boost::asio::io_context& io, Regions& regions, std::function<bool(pid_t)> admits,
         std::function<void(pid_t, std::size_t)> gives, std::function<void(const std::string&)> note);

    [[nodiscard]] Result<> open();
    void close();

  private:
    // By the name that the region has from an earlier coordinator (a program that is executed right now knows
    // it) or a new one. Only root's processes can become another user's: for others nothing is done.
    [[nodiscard]] Result<> open_for_other_users();
    // A session is as good without, which is noted, but for those who need it.
    void open_by_path();
    void answer(const Fd& socket);

    Regions& regions_;
    std::function<bool(pid_t)> admits_;
    std::function<void(pid_t, std::size_t)> gives_;
    std::function<void(const std::string&)> note_;
    Acceptor acceptor_, acceptor_by_path_;
    std::chrono::steady_clock::time_point noted_{};  // a stranger; one of them each second is told of
};

}  // namespace cairn::coordinator
