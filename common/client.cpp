#include "common/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json_text.h"
#include "common/proc.h"
#include "common/reach_coordinator.h"

namespace cairn {
namespace {

constexpr std::size_t longest_message = 256 * 1024;  // docs/protocol.md, Transport

// A coordinator that ends says why in its log, but for the one signal that can't be caught.
std::string last_words(const Session& session) {
    const Fd log(::open(session.log().c_str(), O_RDONLY | O_CLOEXEC));
    char text[512];
    struct stat info {};
    if (!log || ::fstat(log.get(), &info) != 0) return {};
    const ssize_t size = ::pread(log.get(), text, sizeof text,
                                 std::max<off_t>(info.st_size - static_cast<off_t>(sizeof text), 0));
    std::string_view said(text, size > 0 ? static_cast<std::size_t>(size) : 0);
    while (said.ends_with('\n')) said.remove_suffix(1);
    said.remove_prefix(said.rfind('\n') == std::string_view::npos ? 0 : said.rfind('\n') + 1);
    if (said.find("killed by") != std::string_view::npos || said.find("quit:") != std::string_view::npos)
        return fmt::format(" ({})", said);
    return " (it left no word: killed by SIGKILL, by somebody or by the kernel that was out of memory?)";
}

std::unexpected<Error> gone(const Session& session, std::string_view how) {
    return fail_code(ExitCode::no_coordinator, "session {}: the coordinator {}{}; its log is {}",
                     session.name, how, last_words(session), session.log());
}

// With the silence before it (CoordinatorClient::unasked) the 10 s of docs/cairn.1.
constexpr std::chrono::seconds answering{5};

// "pid 12 (cairn-coordinator), which is stopped": who is at the other end.
std::string describe_peer(int fd) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid <= 0) return "of unknown pid";
    std::string text = "pid " + proc::label(who.pid);
    if (const auto stat = proc::stat(who.pid); stat && (stat->state == 'T' || stat->state == 't'))
        text += fmt::format(", which is stopped (kill -CONT {} lets it go on)", who.pid);
    return text;
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
    const int fd = find_coordinator(session);
    if (fd >= 0) return CoordinatorClient(Fd(fd), session);
    if (fd == -ENOENT || fd == -ECONNREFUSED)
        return fail_code(
            ExitCode::no_coordinator,
            "session {}: no coordinator answers at {}; `cairn launch` starts one, `cairn coordinator` "
            "takes over programs whose coordinator has died",
            session.name, session.socket());
    return fail_code(ExitCode::no_coordinator, "session {}: {}", session.name,
                     connection_problem(session, fd));
}

Result<CoordinatorClient> CoordinatorClient::connect_or_start(const Session& session,
                                                              const std::vector<std::string>& more) {
    const Connection connection = reach_coordinator(session, more);
    if (connection.fd < 0) return std::unexpected(Error{connection.problem, 0, ExitCode::no_coordinator});
    return CoordinatorClient(Fd(connection.fd), session);
}

Result<> CoordinatorClient::send(const nlohmann::json& request) {
    // Paths may be anything but UTF-8: a replaced character is refused by the coordinator in words.
    const std::string text = json_text(request);
    if (text.size() > longest_message)
        return fail_code(ExitCode::usage, "a message of {} bytes is too long for the coordinator",
                         text.size());
    while (::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) {
        if (errno == EINTR) continue;
        return gone(session_, fmt::format("went away: {}", std::strerror(errno)));
    }
    return {};
}

namespace {

// Asleep in the kernel, and no signal wakes it: fsync(2) of what it publishes takes as long as the disk has
// other things to write, which may be minutes.
bool waits_for_disk(int coordinator) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(coordinator, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return false;
    for (int look = 0; look < 20; ++look) {
        if (const auto stat = proc::stat(peer.pid); stat && stat->state == 'D') return true;
        ::usleep(10'000);
    }
    return false;
}

}  // namespace

Result<> CoordinatorClient::ask_whether_alive() {
    // On a connection of its own: on this one a request is under way. Whoever serves answers this verb at
    // once, yes or no, be it the root or a relay of it.
    const Fd fd(connect_session(session_));
    const timeval limit{answering.count(), 0};
    const std::string_view question = R"({"verb":"subscribe"})";
    char byte = 0;
    const bool answered = fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
                          ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
                          ::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) > 0 &&
                          ::recv(fd.get(), &byte, 1, 0) > 0;
    if (answered) {
        disk_waits_ = 0;
        return {};
    }
    constexpr int most_disk_waits = 60;  // some ten minutes
    if (disk_waits_ < most_disk_waits && waits_for_disk(fd_.get())) {
        ++disk_waits_;
        return {};
    }
    return fail_code(ExitCode::timed_out,
                     "session {}: no sign of life for {} s from the coordinator, {}; its log is {}",
                     session_.name, (unasked + answering).count(), describe_peer(fd_.get()), session_.log());
}

Result<std::optional<nlohmann::json>> CoordinatorClient::next(std::chrono::milliseconds timeout) {
    if (timeout.count() < 0) {
        for (;;) {
            auto event = next(unasked);
            if (!event || *event) return event;
            CHECK_OK(ask_whether_alive());
        }
    }
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
        // MSG_TRUNC: how long it is, though it may be cut off.
        const ssize_t size = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_TRUNC);
        if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (size < 0) return gone(session_, fmt::format("went away: {}", std::strerror(errno)));
        if (size == 0) return gone(session_, "closed the connection or died");
        if (static_cast<std::size_t>(size) > text.size())
            return fail("the coordinator sent a message of {} bytes, and {} are the most there may be", size,
                        text.size());
        text.resize(static_cast<std::size_t>(size));
        auto event = nlohmann::json::parse(text, nullptr, false);
        if (!event.is_object()) return fail("the coordinator sent something that is no JSON object");
        return std::optional(std::move(event));
    }
}

Result<nlohmann::json> CoordinatorClient::ask(const nlohmann::json& request,
                                              const std::function<void(const nlohmann::json&)>& seen,
                                              std::chrono::milliseconds silence) {
    CHECK_OK(send(request));
    for (;;) {
        auto event = TRY(next(silence));
        if (!event)
            return fail_code(ExitCode::timed_out,
                             "session {}: no answer for {} s from the coordinator, {}; its log is {}",
                             session_.name, std::chrono::duration_cast<std::chrono::seconds>(silence).count(),
                             describe_peer(fd_.get()), session_.log());
        const nlohmann::json& said = *event;
        const std::string kind = said.value("event", "");
        if (kind == "done") return std::move(*event);
        if (kind == "failed") return std::unexpected(error_of(said));
        if (seen) seen(said);
    }
}

}  // namespace cairn
