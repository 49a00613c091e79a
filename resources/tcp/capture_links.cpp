#include "resources/tcp/capture_links.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "resources/socket/capture.h"
#include "resources/socket/schema.h"

namespace cairn::capture {
namespace {

using Clock = std::chrono::steady_clock;

std::string hexadecimal(const std::string& bytes) {
    std::string text;
    for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
}

std::uint64_t unacknowledged(int fd) {
    int bytes = 0;
    return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

std::uint64_t unread(int fd) {
    int bytes = 0;
    return ::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

// What has been sent in all, and what was in the receive queue when everything up to `received` had come: of
// an end's queue there can be more later by what the other has sent beyond that. Read so that what moves
// meanwhile counts twice. None where urgent data hide what is behind them.
std::optional<wire::EndCounted> count(int fd) {
    pollfd urgent{fd, POLLPRI, 0};
    if (::poll(&urgent, 1, 0) > 0 || ::sockatmark(fd) == 1) return std::nullopt;
    wire::EndCounted counted;
    counted.sent = unacknowledged(fd);
    const TcpState state = tcp_state(fd);
    counted.sent += state.acknowledged;
    counted.received = state.received;
    counted.waiting = unread(fd);
    return counted;
}

Error no_room(const LinkEnd& end, std::uint64_t most) {
    Error why{
        fmt::format("{} hasn't read {} bytes yet, {} more are on their way to it from another host, and "
                    "only root may look at those; net.ipv4.tcp_rmem gives it room for {} in all",
                    end.who, unread(end.fd()), end.partner_unsent, most),
        0, ExitCode::refused};
    why.passing = true;
    return why;
}

// While a look into the queue is a moment's, what is in it may be acknowledged; its end stays where it is.
Result<> look_at_sent(LinkEnd& end) {
    end.unsent = unacknowledged(end.fd());
    if (end.unsent == 0) return {};
    auto seen = look_at_send_queue(end.fd());
    if (!seen) return std::unexpected(std::move(seen.error()).in(end.who));
    if (!*seen) return {};  // not permitted
    end.written = (*seen)->end;
    end.sent = std::move((*seen)->data);
    return {};
}

// Moves on to where an ordinary user can see it: the receivers make room, the senders wait.
Result<> let_all_flow(std::vector<LinkEnd>& ends) {
    for (LinkEnd& end : ends) {
        if (end.link < 0 || end.partner_unsent == 0) continue;
        const auto before = tcp_state(end.fd()).received;
        (void)let_flow(end.fd(), -1, static_cast<std::size_t>(end.partner_unsent),
                       [&] { return tcp_state(end.fd()).received >= before + end.partner_unsent; });
    }
    for (LinkEnd& end : ends) {
        if (end.link < 0 || end.unsent == 0) continue;
        auto moved = Clock::now();
        std::uint64_t last = end.unsent;
        while (last != 0 && Clock::now() - moved < std::chrono::milliseconds(1500)) {
            ::usleep(200);
            if (const auto now = unacknowledged(end.fd()); now != last) {
                last = now;
                moved = Clock::now();
            }
        }
        if (last != 0) {
            auto problem = fail_code(
                ExitCode::refused,
                "{} has sent {} bytes to another host that don't arrive there, and only root may look at "
                "what is in between; more room would come with a larger net.ipv4.tcp_rmem",
                end.who, last);
            problem.error().passing = true;
            return problem;
        }
        end.written.reset();
        end.sent.clear();
    }
    return {};
}

Result<> look_at_received(LinkEnd& end, bool flowed) {
    // What arrives while we look belongs to neither copy for sure: look again.
    for (int tries = 0; tries < 200; ++tries) {
        std::optional<std::uint32_t> before;
        if (end.partner_unsent != 0 && !flowed) {
            before = receive_sequence(end.fd());
            if (!before)
                return fail("{}: TCP_REPAIR isn't permitted here, but on the other host it is", end.who);
        }
        auto received = look_into_tcp(end.fd());
        if (!received) return std::unexpected(std::move(received.error()).in(end.who));
        if (before && receive_sequence(end.fd()) != before) continue;
        end.arrived = before;
        end.received = std::move(*received);
        return {};
    }
    auto problem =
        fail_code(ExitCode::refused, "{} receives without an end, though everybody stands still", end.who);
    problem.error().passing = true;
    return problem;
}

std::vector<std::string> all_hexadecimal(const std::vector<std::string>& addresses) {
    std::vector<std::string> list;
    for (const std::string& address : addresses) list.push_back(hexadecimal(address));
    return list;
}

// Of a list of ours that is `size` long.
Result<std::vector<std::pair<std::size_t, std::int64_t>>> pairs_of(
    const std::vector<wire::NumberedLink>& numbered, std::size_t size) {
    std::vector<std::pair<std::size_t, std::int64_t>> pairs;
    for (const auto& [index, link] : numbered) {
        if (index >= size) return fail("the coordinator speaks of a connection that isn't there");
        pairs.emplace_back(index, link);
    }
    return pairs;
}

// Whoever had the other end has closed it; what was sent before that still comes.
Result<> let_it_end(const LinkEnd& end, std::uint64_t bytes) {
    const auto over = [&] { return has_seen_the_end(tcp_state(end.fd()).state); };
    if (over() || let_flow(end.fd(), -1, static_cast<std::size_t>(bytes), over)) return {};
    auto problem = fail_code(ExitCode::refused,
                             "{} is a TCP socket whose peer on another host has closed it, with more to come "
                             "than there is room for",
                             end.who);
    problem.error().passing = true;
    return problem;
}

// What the other hosts need to know. From the moment when all have said it each has its copies of the send
// queues.
Result<wire::HostConnections> look_at(std::vector<LinkEnd>& ends, const std::vector<LooseEnd>& loose,
                                      const Calls& calls, std::uint64_t most) {
    wire::HostConnections ours{
        .held = {}, .unheld = {}, .calls = all_hexadecimal(calls.to), .reached = all_hexadecimal(calls.at)};
    for (LinkEnd& end : ends) {
        CHECK_OK(look_at_sent(end));
        ours.held.push_back({.own = hexadecimal(end.own),
                             .peer = hexadecimal(end.peer),
                             .unsent = end.unsent,
                             .shown = end.unsent == 0 || end.written.has_value(),
                             .room = most - std::min(most, unread(end.fd())),
                             .counted = count(end.fd())});
    }
    for (const LooseEnd& end : loose)
        ours.unheld.push_back({hexadecimal(end.own), hexadecimal(end.peer), end.who, end.unsent});
    return ours;
}

// What all hosts' connections make of one of ours.
Result<> learn(LinkEnd& end, const wire::MatchedEnd& matched) {
    if (!matched.refused.empty()) {
        auto problem = fail_code(ExitCode::refused, "{} {}", end.who, matched.refused);
        problem.error().passing = true;
        return problem;
    }
    if (matched.closing) return let_it_end(end, *matched.closing);
    end.link = matched.link;
    end.pending = matched.pending;
    end.side = matched.side;
    end.partner_unsent = matched.unsent;
    end.partner_unread = matched.unread;
    if (matched.full) keep_small(end.fd());
    return {};
}

}  // namespace

Result<> meet_other_hosts(std::vector<LinkEnd>& ends, std::vector<LooseEnd>& loose, Calls& calls,
                          const MeetHosts& meet) {
    const std::uint64_t most = most_room();
    const auto ours = TRY(look_at(ends, loose, calls, most));
    const auto known = TRY(meet.connections(ours));
    calls.answered = TRY(pairs_of(known.called, calls.to.size()));
    calls.awaited = TRY(pairs_of(known.awaited, calls.at.size()));
    for (const auto& [index, link] : TRY(pairs_of(known.pending, loose.size()))) loose[index].link = link;
    std::optional<Error> full;
    for (const wire::MatchedEnd& matched : known.ends) {
        if (matched.end >= ends.size())
            return fail("the coordinator speaks of a connection that isn't there");
        LinkEnd& end = ends[matched.end];
        CHECK_OK(learn(end, matched));
        if (matched.full && !full) full = no_room(end, most);
    }
    // Nobody's queue moves then, not even where there is room: it would only be fuller at the next try.
    if (full) return std::unexpected(std::move(*full));
    if (known.flow) {
        if (!known.full) CHECK_OK(let_all_flow(ends));
        CHECK_OK(meet.flowed());
    }
    for (LinkEnd& end : ends)
        if (end.link >= 0 && !end.pending) CHECK_OK(look_at_received(end, known.flow));
    return {};
}

}  // namespace cairn::capture
