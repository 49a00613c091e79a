// A restart's conversation with the coordinator, at which the parts of a computation meet, on one host or
// several: they wait for each other twice (when all have come, and when all are complete), and tell each
// other the ends of their connections in between (docs/protocol.md, "restart-join" and what follows).
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/client.h"
#include "common/error.h"
#include "common/session.h"
#include "common/wire/events.h"
#include "common/wire/requests.h"

namespace cairn::restart {

class Meeting {
  public:
    // `directory`: of the checkpoint, for who is told to bring other parts. `quiet`: don't tell.
    Meeting(Session session, CoordinatorClient client, std::string directory, bool quiet)
        : session_(std::move(session)),
          client_(std::move(client)),
          directory_(std::move(directory)),
          quiet_(quiet) {}

    [[nodiscard]] const Session& session() const { return session_; }
    // Where each part is now, once all have come.
    [[nodiscard]] const std::vector<wire::PartAt>& places() const { return places_; }

    // Says which of the computation's processes come from here, and waits for the other parts, for ever or
    // `wait_seconds`.
    [[nodiscard]] Result<> arrive(wire::RestartJoin join, std::optional<int> wait_seconds);
    // Ends of connections to other parts, for the coordinator; theirs, from it.
    [[nodiscard]] Result<std::vector<wire::PartEnd>> exchange_links(std::vector<wire::PartEnd> ends);
    // An error once another part has given up.
    [[nodiscard]] Result<> still_wanted();
    // Says that these processes are complete, and waits until all parts' are.
    [[nodiscard]] Result<> await_release(wire::RestartReady members);
    // The programs run.
    void say_done() { (void)client_.send(pack(wire::RestartDone{})); }

  private:
    // What is too much for one message goes in several, of which all but the last have "more".
    template <class M, class T>
    [[nodiscard]] Result<> send_in_pieces(M message, std::vector<T> M::*list);
    template <class M>
    [[nodiscard]] Result<M> await(std::optional<int> seconds);
    [[nodiscard]] std::string tell_missing(const nlohmann::json& event) const;

    Session session_;
    CoordinatorClient client_;
    std::string directory_;
    bool quiet_;
    std::vector<wire::PartAt> places_;
    std::optional<Error> given_up_;  // elsewhere, while we waited for another part
};

}  // namespace cairn::restart
