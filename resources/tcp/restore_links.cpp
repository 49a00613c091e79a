#include "resources/tcp/restore_links.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "resources/tcp/restore_callers.h"
#include "resources/tcp/restore_link_talk.h"

namespace cairn::restart {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto call_patience = std::chrono::seconds(5);     // one address of the other host
constexpr auto old_patience = std::chrono::seconds(2);      // the addresses that there were
constexpr auto accept_patience = std::chrono::seconds(45);  // until it has called
constexpr auto proof_patience = std::chrono::seconds(10);   // of who has taken the call
// Of what this speaks of a connection's ends, and of what is said on them (docs/protocol.md).
constexpr int wire_version = 3;
// What a connection can have in it, where the image doesn't say: TCP's largest window.
constexpr std::uint64_t largest_window = std::uint64_t{1} << 30;

Address any_address(int domain) {
    return Address::loopback(domain).any();
}

void set_blocking(int fd, bool blocking) {
    const int flags = ::fcntl(fd, F_GETFL);
    ::fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

class LinkMaker {
  public:
    LinkMaker(std::vector<Link*> links, const LinkSurroundings& surroundings)
        : links_(std::move(links)), s_(surroundings) {}

    Result<> run() {
        // In the same order everywhere: nobody waits for somebody who waits for him.
        std::ranges::sort(links_, {}, [](const Link* link) { return link->saved.number; });
        for (const Link* link : links_) free_port(*link);
        std::vector<wire::PartEnd> ends;
        for (Link* link : links_) ends.push_back(TRY(offer(*link)));
        ask_to_end(ends);
        for (wire::PartEnd& other : TRY(s_.meet(std::move(ends)))) {
            for (const wire::DeadConnection& dead : other.leftovers)
                end_at_host(
                    {Address::parse(dead.own, dead.own_port), Address::parse(dead.peer, dead.peer_port)});
            const auto number = other.link;
            other_[number] = std::move(other);
        }
        for (Link* link : links_) {
            auto done = is_of_this_version(*link);
            if (done) done = link->saved.side == 0 ? answer(*link) : call(*link);
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
    void ask_to_end(std::vector<wire::PartEnd>& ends) const {
        for (const Leftover& leftover : s_.leftovers)
            for (std::size_t n = 0; n < links_.size(); ++n) {
                if (!links_[n]->peer_now.with_port(0).same(leftover.peer.with_port(0))) continue;
                ends[n].leftovers.push_back({.own = leftover.own.host_words(),
                                             .peer = leftover.peer.host_words(),
                                             .own_port = leftover.own.port(),
                                             .peer_port = leftover.peer.port()});
                break;
            }
    }

    Result<wire::PartEnd> offer(Link& link) {
        wire::PartEnd end{.link = link.saved.number, .side = link.saved.side, .wire = wire_version};
        if (link.saved.side == 0) {
            auto ticket = TRY(callers_.expect());
            tokens_[link.saved.number] = ticket.token;
            end.port = TRY(callers_.listen(any_address(link.domain), link.domain, link.make));
            end.token = ticket.token;
            // Coordinators pass it on over what is a secret to others: a Unix socket, a channel with their
            // key.
            end.key = ticket.key.text();
            end.old = callers_.listen(link.own, link.domain, link.make).has_value();
        }
        return end;
    }

    [[nodiscard]] Result<> is_of_this_version(const Link& link) const {
        const auto found = other_.find(link.saved.number);
        if (found == other_.end()) return fail("the coordinator has not said where its other end is");
        const int theirs = found->second.wire;
        if (theirs == wire_version) return {};
        return fail_code(ExitCode::refused,
                         "its other part, on {}, speaks version {} of what parts say to each other, this one "
                         "speaks {}: all hosts need the same cairn",
                         where(link), theirs, wire_version);
    }

    Result<> answer(Link& link) {
        for (const auto until = Clock::now() + accept_patience; Clock::now() < until;) {
            auto [fd, channel] = callers_.take(tokens_.at(link.saved.number), std::chrono::milliseconds(500));
            if (fd) {
                link.fd = std::move(fd);
                channel_ = std::move(channel);
                return {};
            }
            CHECK_OK(s_.still_wanted());
        }
        const std::size_t unproved = callers_.unproved();
        return fail_code(ExitCode::timed_out,
                         "its other part, on {}, has not called within {} s: can it reach this host?{}",
                         where(link), accept_patience.count(),
                         unproved == 0 ? std::string()
                                       : fmt::format(" ({} who called did not prove the connection's key: "
                                                     "somebody in between changes what is said)",
                                                     unproved));
    }

    [[nodiscard]] std::string where(const Link& link) const {
        std::string text;
        const auto other = other_.find(link.saved.number);
        if (other == other_.end()) return "?";
        for (const std::string& address : other->second.addresses)
            text += (text.empty() ? "" : ", ") + address;
        return text.empty() ? "this host" : text;
    }

    Result<> call(Link& link) {
        const wire::PartEnd& other = other_.at(link.saved.number);
        auto key = TRY(Key::parse(other.key, "what the coordinator says of the connection"));
        if (other.old && link.own.is_here() &&
            try_to_call(link, link.peer, {other.token, key}, true, old_patience))
            return {};
        std::string tried;
        std::vector<std::string> addresses = other.addresses;
        addresses.emplace_back(link.domain == AF_INET6 ? "::1" : "127.0.0.1");  // both parts on one host
        for (const std::string& text : addresses) {
            const Address address = Address::parse(text, other.port).in_domain(link.domain);
            if (address.domain() != link.domain) continue;
            auto done = try_to_call(link, address, {other.token, key}, false, call_patience);
            if (done) return {};
            CHECK_OK(s_.still_wanted());
            tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", address.words(), done.error().what);
        }
        return fail("its other part can't be reached ({})", tried);
    }

    // Who takes the call and can't prove that he is the other part isn't told anything: the next address is
    // tried.
    Result<> try_to_call(Link& link, const Address& address, const TcpCallers::Ticket& ticket, bool as_before,
                         std::chrono::seconds patience) {
        Fd fd = link.make();
        if (!fd) return fail_errno("socket");
        if (as_before && !link.bind(fd.get(), link.own)) return fail_errno("bind");
        set_blocking(fd.get(), false);
        if (::connect(fd.get(), address.name(), address.length()) != 0) {
            if (errno != EINPROGRESS) return fail("{}", std::strerror(errno));
            short seen = 0;
            for (const auto until = Clock::now() + patience; seen == 0;) {
                const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
                if (left.count() <= 0) return fail("{}", std::strerror(ETIMEDOUT));
                seen = callers_.wait(fd.get(), POLLOUT, left);
            }
            int problem = 0;
            socklen_t size = sizeof problem;
            ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
            if (problem != 0) return fail("{}", std::strerror(problem));
        }
        auto channel = std::make_unique<Channel>(Channel::Role::relay, ticket.key, Channel::Between::parts);
        auto proved = talk(fd.get(), *channel).prove(ticket.token, proof_patience);
        if (!proved) return proved;
        link.fd = std::move(fd);
        channel_ = std::move(channel);
        return {};
    }

    [[nodiscard]] LinkTalk talk(int fd, Channel& channel) {
        return {fd, channel, [this, asked = Clock::now()](int waits, short events) mutable -> Result<short> {
                    if (Clock::now() - asked > std::chrono::milliseconds(500)) {
                        CHECK_OK(s_.still_wanted());
                        asked = Clock::now();
                    }
                    return callers_.wait(waits, events, std::chrono::milliseconds(200));
                }};
    }

    // Each tells the other what it had received and not read: what came by a connection can be put there by
    // its other end only. Then what will come, so that it can be compared.
    [[nodiscard]] Result<> exchange(Link& link) {
        wire::EndSays own{.arrived = link.saved.arrived, .urgent_inline = link.urgency.among};
        if (link.urgency.mark) {
            own.mark = link.urgency.mark->before;
            own.urgent = link.urgency.mark->urgent;
        }
        LinkTalk said = talk(link.fd.get(), *channel_);
        auto theirs = TRY(said.swap(own, *link.contents, link.saved.their_unread.value_or(largest_window)));
        if (theirs.words.mark)
            link.their_urgency.mark = {.before = *theirs.words.mark, .urgent = theirs.words.urgent};
        link.their_urgency.among = theirs.words.urgent_inline;
        link.to_send = std::move(theirs.bytes);
        link.received_size = link.to_send.size();
        if (theirs.words.arrived) CHECK_OK(add_what_was_between(link, *theirs.words.arrived));
        auto between = TRY(said.swap(wire::EndSays{}, std::span(link.to_send).subspan(link.received_size),
                                     link.saved.their_unsent));
        link.between = std::move(between.bytes);
        channel_.reset();
        set_blocking(link.fd.get(), true);
        return {};
    }

    // `arrived`: at the other end.
    static Result<> add_what_was_between(Link& link, std::uint32_t arrived) {
        if (!link.saved.written) return {};
        const schema::Bytes& sent = link.saved.sent;
        // Sequence numbers wrap around; the other's may count our end (FIN), which ours doesn't.
        const auto missing = static_cast<std::int32_t>(*link.saved.written - arrived);
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
    std::unique_ptr<Channel> channel_;  // of the connection whose turn it is
    std::map<std::int64_t, std::string> tokens_;
    std::map<std::int64_t, wire::PartEnd> other_;
};

}  // namespace

Result<> connect_links(std::vector<Link*> links, const LinkSurroundings& surroundings) {
    return LinkMaker(std::move(links), surroundings).run();
}

}  // namespace cairn::restart
