// A client of the coordinator (docs/protocol.md): sends requests, reads events.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/session.h"

namespace cairn {

class CoordinatorClient {
  public:
    // Fails with ExitCode::no_coordinator, and what to do, where nobody answers.
    [[nodiscard]] static Result<CoordinatorClient> connect(const Session& session);

    // As connect, but starts a coordinator where none answers, with `more` on its command line; `session`
    // must be one of make_session().
    [[nodiscard]] static Result<CoordinatorClient> connect_or_start(const Session& session,
                                                                    const std::vector<std::string>& more);

    [[nodiscard]] Result<> send(const nlohmann::json& request);

    // The next event; nothing when none came within `timeout` (negative: no limit, as long as the coordinator
    // shows when asked that it lives). A coordinator that goes away is ExitCode::no_coordinator, one that is
    // silent for 10 s though it is asked ExitCode::timed_out.
    [[nodiscard]] Result<std::optional<nlohmann::json>> next(std::chrono::milliseconds timeout);

    // Sends, and reads up to `done`, which is returned; `failed` becomes an Error with its code and reason.
    // Events before that go to `seen`. ExitCode::timed_out when `silence` passes without any event (negative:
    // no limit).
    [[nodiscard]] Result<nlohmann::json> ask(const nlohmann::json& request,
                                             const std::function<void(const nlohmann::json&)>& seen,
                                             std::chrono::milliseconds silence);

    // Whether the coordinator answers on another connection, within 5 s: ExitCode::timed_out, and who it is.
    // For who waits for events of his own accord, after silence of this length.
    static constexpr std::chrono::seconds unasked{5};
    [[nodiscard]] Result<> ask_whether_alive();

    // For poll(2).
    [[nodiscard]] int fd() const { return fd_.get(); }

  private:
    CoordinatorClient(Fd fd, Session session) : fd_(std::move(fd)), session_(std::move(session)) {}

    Fd fd_;
    Session session_;
    int disk_waits_ = 0;  // so many times it was found waiting for the disk
};

// The Error of a `failed` event.
[[nodiscard]] Error error_of(const nlohmann::json& failed);

}  // namespace cairn
