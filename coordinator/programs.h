// This host's programs, whichever host the computation has its root on: those that have registered, those
// that were told to begin, and the end of all.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/session.h"
#include "coordinator/json.h"
#include "coordinator/regions.h"
#include "coordinator/registry.h"

namespace cairn::coordinator {

class Programs {
  public:
    struct Listener {
        std::function<void(const Member&)> joined, left, asks;
        std::function<void()> starting;  // their number has changed
        std::function<void(const std::string&)> warning;
    };

    Programs(boost::asio::io_context& io, const Session& session, Regions& regions, Listener listener);

    [[nodiscard]] Registry& registry() { return registry_; }
    [[nodiscard]] const Registry& registry() const { return registry_; }
    // Nobody has registered or is about to after a fork.
    [[nodiscard]] bool none() const { return registry_.members().empty() && registry_.births() == 0; }

    // It was told yes, and counts until it has registered, has ended, or is late.
    void expect(pid_t pid);
    [[nodiscard]] std::size_t starting() const { return starting_.size(); }
    [[nodiscard]] bool is_starting(pid_t pid) const { return starting_.contains(pid); }
    void forget_starting() { starting_.clear(); }

    [[nodiscard]] std::vector<wire::Process> list();
    // Whom besides the members: those who are being born, or also those whom nobody registers, as a static
    // program's children. A checkpoint has registered whom it has saved, and the user may have had others
    // left out of it.
    enum class Besides { births, everybody };
    // SIGKILL until nobody is left, 5 s long. How many members it were.
    [[nodiscard]] boost::asio::awaitable<std::size_t> kill_all(Besides besides = Besides::births);
    // The same for everybody; then `done` or `failed`.
    void kill(const Reply& answer);

  private:
    struct Starting {
        std::unique_ptr<boost::asio::posix::stream_descriptor> process;
        std::unique_ptr<boost::asio::steady_timer> deadline;
    };
    void expected(pid_t pid);

    boost::asio::io_context& io_;
    const Session& session_;
    Regions& regions_;
    Listener listener_;
    Registry registry_;
    std::map<pid_t, Starting> starting_;
};

}  // namespace cairn::coordinator
