#include "restart/objects/tcp_links.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "common/schema/extra.h"
#include "restart/objects/tcp_callers.h"

namespace cairn::restart {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto call_patience = std::chrono::seconds(5);     // one address of the other host
constexpr auto old_patience = std::chrono::seconds(2);      // the addresses that there were
constexpr auto accept_patience = std::chrono::seconds(45);  // until it has called
constexpr auto talk_patience = std::chrono::seconds(20);    // nothing moved
constexpr std::uint64_t longest = std::uint64_t{2} << 30;

Address any_address(int domain) {
    return Address::loopback(domain).any();
}

void set_blocking(int fd, bool blocking) {
    const int flags = ::fcntl(fd, F_GETFL);
    ::fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

bool ready(int fd, short events, Clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd polled{fd, events, 0};
    return ::poll(&polled, 1, static_cast<int>(std::clamp<long>(left, 0, 60'000))) > 0;
}

class LinkMaker {
  public:
    LinkMaker(std::vector<Link*> links, const LinkSurroundings& surroundings)
        : links_(std::move(links)), s_(surroundings) {}

    Result<> run() {
        // In the same order everywhere: nobody waits for somebody who waits for him.
        std::ranges::sort(links_, {}, [](const Link* link) { return link->number; });
        for (const Link* link : links_) free_port(*link);
        json ends = json::array();
        for (Link* link : links_)
            if (auto done = offer(*link, ends); !done) return done;
        ask_to_end(ends);
        auto others = s_.meet(ends);
        if (!others) return std::unexpected(std::move(others.error()));
        for (const json& other : *others) {
            other_[other.value("link", std::int64_t{-1})] = other;
            end_for(other.value("leftovers", json::array()));
        }
        for (Link* link : links_) {
            auto done = link->side == 0 ? answer(*link) : call(*link);
            if (done) done = exchange(*link);
            if (!done)
                return std::unexpected(std::move(done.error())
                                           .in(fmt::format("connection {} - {} between hosts",
                                                           link->own.words(), link->peer.words())));
        }
        return {};
    }

  private:
    // The dead connection's other end may be in TIME_WAIT, and keep its port from a server there. Before
    // anybody listens: a listening socket would take this for a client.
    void free_port(const Link& link) const { end_at_host({link.peer, link.own}); }

    // `end.peer` is an address of this host, `end.own` one of another's of the computation.
    void end_at_host(const Leftover& end) const {
        if (end.peer.empty() || end.own.empty() || !end.peer.is_here()) return;
        for (const std::string& address : s_.hosts)
            if (Address::parse(address, end.own.port()).same(end.own))
                return call_and_hang_up(end.peer, end.own);
    }

    // Dead connections of no image (of a job that ran before, say) keep ports as well. The part on the host
    // where the other end was hears of them with the end of a connection that it has to us.
    void ask_to_end(json& ends) const {
        for (const Leftover& leftover : s_.leftovers)
            for (std::size_t n = 0; n < links_.size(); ++n) {
                if (!links_[n]->peer_now.with_port(0).same(leftover.peer.with_port(0))) continue;
                ends[n]["leftovers"].push_back({leftover.own.host_words(), leftover.own.port(),
                                                leftover.peer.host_words(), leftover.peer.port()});
                break;
            }
    }

    void end_for(const json& leftovers) const {
        for (const json& each : leftovers) {
            const auto address = [&each](std::size_t at) {
                if (!each.is_array() || each.size() != 4 || !each[at].is_string() ||
                    !each[at + 1].is_number_integer())
                    return Address();
                return Address::parse(each[at].get<std::string>(), each[at + 1].get<std::uint16_t>());
            };
            end_at_host({address(0), address(2)});
        }
    }

    Result<> offer(Link& link, json& ends) {
        json end = {{"link", link.number}, {"side", link.side}};
        if (link.side == 0) {
            const std::string token = tokens_[link.number] = callers_.expect();
            if (token.empty()) return fail_errno("no random numbers");
            auto fallback = callers_.listen(any_address(link.domain), link.domain, link.make);
            if (!fallback) return std::unexpected(std::move(fallback.error()));
            end["port"] = *fallback;
            end["token"] = token;
            end["old"] = callers_.listen(link.own, link.domain, link.make).has_value();
        }
        ends.push_back(std::move(end));
        return {};
    }

    Result<> answer(Link& link) {
        for (const auto until = Clock::now() + accept_patience; Clock::now() < until;) {
            link.fd = callers_.take(tokens_.at(link.number), std::chrono::milliseconds(500));
            if (link.fd) return {};
            if (auto fine = s_.still_wanted(); !fine) return fine;
        }
        return fail_code(ExitCode::timed_out,
                         "its other part, on {}, has not called within {} s: can it reach this host?",
                         where(link), accept_patience.count());
    }

    [[nodiscard]] std::string where(const Link& link) const {
        std::string text;
        const auto other = other_.find(link.number);
        if (other == other_.end()) return "?";
        for (const json& address : other->second.value("addresses", json::array()))
            text += (text.empty() ? "" : ", ") + address.get<std::string>();
        return text.empty() ? "this host" : text;
    }

    Result<> call(Link& link) {
        const auto found = other_.find(link.number);
        if (found == other_.end()) return fail("the coordinator has not said where its other end is");
        const json& other = found->second;
        const std::string token = other.value("token", "");
        if (other.value("old", false) && link.own.is_here() &&
            try_to_call(link, link.peer, token, true, old_patience))
            return {};
        std::string tried;
        std::vector<std::string> addresses;
        for (const json& address : other.value("addresses", json::array()))
            addresses.push_back(address.get<std::string>());
        addresses.emplace_back(link.domain == AF_INET6 ? "::1" : "127.0.0.1");  // both parts on one host
        for (const std::string& text : addresses) {
            const Address address =
                Address::parse(text, other.value("port", std::uint16_t{0})).in_domain(link.domain);
            if (address.domain() != link.domain) continue;
            if (try_to_call(link, address, token, false, call_patience)) return {};
            const int problem = errno;
            if (auto fine = s_.still_wanted(); !fine) return fine;
            errno = problem;
            tried +=
                fmt::format("{}{}: {}", tried.empty() ? "" : "; ", address.words(), std::strerror(errno));
        }
        return fail("its other part can't be reached ({})", tried);
    }

    static bool try_to_call(Link& link, const Address& address, const std::string& token, bool as_before,
                            std::chrono::seconds patience) {
        const auto until = Clock::now() + patience;
        Fd fd = link.make();
        if (!fd) return false;
        if (as_before && !link.bind(fd.get(), link.own)) return false;
        set_blocking(fd.get(), false);
        if (::connect(fd.get(), address.name(), address.length()) != 0) {
            if (errno != EINPROGRESS) return false;
            errno = ETIMEDOUT;
            if (!ready(fd.get(), POLLOUT, until)) return false;
            int problem = 0;
            socklen_t size = sizeof problem;
            ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
            errno = problem;
            if (problem != 0) return false;
        }
        if (::send(fd.get(), token.data(), token.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(token.size()))
            return false;
        link.fd = std::move(fd);
        return true;
    }

    // Each tells the other what it had received and not read: what came by a connection can be put there by
    // its other end only.
    [[nodiscard]] Result<> exchange(Link& link) const {
        json own = {{"contents", schema::binary(link.contents->data(), link.contents->size())},
                    {"extra", json::object()}};
        for (const char* field : {"arrived", "mark", "urgent"})
            if (link.extra.contains(field)) own["extra"][field] = link.extra[field];
        own["extra"]["options"] = {
            {"SO_OOBINLINE",
             schema::number<int>(link.extra.value("options", json::object()), "SO_OOBINLINE")}};
        const auto packed = schema::pack(own);
        std::string out(8, '\0');
        const std::uint64_t size = packed.size();
        std::memcpy(out.data(), &size, sizeof size);
        out.append(reinterpret_cast<const char*>(packed.data()), packed.size());
        std::string in;
        std::uint64_t wanted = 8;
        std::size_t sent = 0;
        auto moved = Clock::now();
        std::vector<char> buffer(1 << 18);
        while (sent < out.size() || in.size() < wanted) {
            if (Clock::now() - moved > std::chrono::milliseconds(500))
                if (auto fine = s_.still_wanted(); !fine) return fine;
            if (Clock::now() - moved > talk_patience)
                return fail_code(ExitCode::timed_out, "its other part says nothing for {} s",
                                 talk_patience.count());
            pollfd polled{
                link.fd.get(),
                static_cast<short>((in.size() < wanted ? POLLIN : 0) | (sent < out.size() ? POLLOUT : 0)), 0};
            ::poll(&polled, 1, 200);
            if ((polled.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && in.size() < wanted) {
                const std::size_t most = std::min<std::uint64_t>(buffer.size(), wanted - in.size());
                const ssize_t n = ::recv(link.fd.get(), buffer.data(), most, MSG_DONTWAIT);
                if (n == 0) return fail("its other part has given up");
                if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_errno("its other part");
                if (n > 0) {
                    in.append(buffer.data(), static_cast<std::size_t>(n));
                    moved = Clock::now();
                }
                if (wanted == 8 && in.size() == 8) {
                    std::uint64_t more = 0;
                    std::memcpy(&more, in.data(), sizeof more);
                    if (more > longest) return fail("its other part speaks of {} bytes", more);
                    wanted += more;
                }
            }
            if ((polled.revents & POLLOUT) != 0 && sent < out.size()) {
                const ssize_t n =
                    ::send(link.fd.get(), out.data() + sent, out.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_errno("its other part");
                if (n > 0) {
                    sent += static_cast<std::size_t>(n);
                    moved = Clock::now();
                }
            }
        }
        set_blocking(link.fd.get(), true);
        const schema::Bytes said(in.begin() + 8, in.end());
        auto theirs = schema::unpack(said);
        if (!theirs) return std::unexpected(std::move(theirs.error()));
        const std::string contents = schema::bytes(*theirs, "contents");
        link.their_extra = theirs->value("extra", json::object());
        link.to_send.assign(contents.begin(), contents.end());
        link.received_size = link.to_send.size();
        return add_what_was_between(link);
    }

    static Result<> add_what_was_between(Link& link) {
        if (!link.extra.contains("written") || !link.their_extra.contains("arrived")) return {};
        const auto written = schema::number<std::uint32_t>(link.extra, "written");
        const auto arrived = schema::number<std::uint32_t>(link.their_extra, "arrived");
        const std::string sent = schema::bytes(link.extra, "sent");
        // Sequence numbers wrap around; the other's may count our end (FIN), which ours doesn't.
        const auto missing = static_cast<std::int32_t>(written - arrived);
        if (missing <= 0) return {};
        if (static_cast<std::size_t>(missing) > sent.size())
            return fail_code(ExitCode::damaged, "{} bytes were in between, the image has {}", missing,
                             sent.size());
        link.to_send.insert(link.to_send.end(), sent.end() - missing, sent.end());
        return {};
    }

    std::vector<Link*> links_;
    const LinkSurroundings& s_;
    TcpCallers callers_;
    std::map<std::int64_t, std::string> tokens_;
    std::map<std::int64_t, json> other_;
};

}  // namespace

Result<> connect_links(std::vector<Link*> links, const LinkSurroundings& surroundings) {
    return LinkMaker(std::move(links), surroundings).run();
}

}  // namespace cairn::restart
