#include "common/client.h"

#include <poll.h>
#include <sys/socket.h>

#include "common/reach_coordinator.h"

namespace cairn {
namespace {

constexpr std::size_t longest_message = 256 * 1024;  // docs/protocol.md, Transport

std::unexpected<Error> gone(const Session& session, std::string_view how) {
    return fail_code(ExitCode::no_coordinator, "session {}: the coordinator {}; its log is {}", session.name,
                     how, session.log());
}

}  // namespace

Error error_of(const nlohmann::json& failed) {
    const int code = failed.value("code", 1);
    const bool known =
        code >= static_cast<int>(ExitCode::failed) && code <= static_cast<int>(ExitCode::timed_out);
    return {failed.value("reason", "the coordinator gives no reason"), 0,
            known ? static_cast<ExitCode>(code) : ExitCode::failed};
}

Result<CoordinatorClient> CoordinatorClient::connect(const Session& session) {
    const int fd = connect_session(session);
    if (fd >= 0) return CoordinatorClient(Fd(fd), session);
    if (fd == -ENOENT || fd == -ECONNREFUSED)
        return fail_code(
            ExitCode::no_coordinator,
            "session {}: no coordinator answers at {}; `cairn launch` starts one, `cairn coordinator` "
            "takes over programs whose coordinator has died",
            session.name, session.socket());
    return fail_code(ExitCode::no_coordinator, "session {}: {}: {}", session.name, session.socket(),
                     std::strerror(-fd));
}

Result<CoordinatorClient> CoordinatorClient::connect_or_start(const Session& session) {
    const Connection connection = reach_coordinator(session);
    if (connection.fd < 0) return fail_code(ExitCode::no_coordinator, "{}", connection.problem);
    return CoordinatorClient(Fd(connection.fd), session);
}

Result<> CoordinatorClient::send(const nlohmann::json& request) {
    // Paths may be anything but UTF-8: a replaced character is refused by the coordinator in words.
    const std::string text = request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (text.size() > longest_message)
        return fail_code(ExitCode::usage, "a message of {} bytes is too long for the coordinator",
                         text.size());
    while (::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) {
        if (errno == EINTR) continue;
        return gone(session_, fmt::format("went away: {}", std::strerror(errno)));
    }
    return {};
}

Result<std::optional<nlohmann::json>> CoordinatorClient::next(std::chrono::milliseconds timeout) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + timeout;
    std::string text(longest_message, '\0');
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
        pollfd wait{fd_.get(), POLLIN, 0};
        const int ready =
            ::poll(&wait, 1, timeout.count() < 0 ? -1 : static_cast<int>(std::max<long>(left, 0)));
        if (ready < 0 && errno == EINTR) continue;
        if (ready < 0) return fail_errno("waiting for the coordinator");
        if (ready == 0) return std::optional<nlohmann::json>();
        const ssize_t size = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT);
        if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (size < 0) return gone(session_, fmt::format("went away: {}", std::strerror(errno)));
        if (size == 0) return gone(session_, "closed the connection or died");
        text.resize(static_cast<std::size_t>(size));
        auto event = nlohmann::json::parse(text, nullptr, false);
        if (!event.is_object()) return fail("the coordinator sent something that is no JSON object");
        return std::optional(std::move(event));
    }
}

Result<nlohmann::json> CoordinatorClient::ask(const nlohmann::json& request,
                                              const std::function<void(const nlohmann::json&)>& seen,
                                              std::chrono::milliseconds silence) {
    if (auto sent = send(request); !sent) return std::unexpected(std::move(sent.error()));
    for (;;) {
        auto event = next(silence);
        if (!event) return std::unexpected(std::move(event.error()));
        if (!*event)
            return fail_code(ExitCode::timed_out,
                             "session {}: the coordinator gave no answer for {} s; its log is {}",
                             session_.name, std::chrono::duration_cast<std::chrono::seconds>(silence).count(),
                             session_.log());
        const nlohmann::json& said = **event;
        const std::string kind = said.value("event", "");
        if (kind == "done") return std::move(**event);
        if (kind == "failed") return std::unexpected(error_of(said));
        if (seen) seen(said);
    }
}

}  // namespace cairn
