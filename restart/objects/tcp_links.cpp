#include "restart/objects/tcp_links.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "common/schema/extra.h"
#include "restart/objects/time_wait.h"

namespace cairn::restart {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto call_patience = std::chrono::seconds(5);     // one address of the other host
constexpr auto old_patience = std::chrono::seconds(2);      // the addresses that there were
constexpr auto accept_patience = std::chrono::seconds(45);  // until it has called
constexpr auto talk_patience = std::chrono::seconds(20);    // nothing moved
constexpr std::size_t token_size = 32;
constexpr std::uint64_t longest = std::uint64_t{2} << 30;

std::string make_token() {
    unsigned char bytes[token_size / 2];
    if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) std::memset(bytes, 0, sizeof bytes);
    std::string text;
    for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

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
    LinkMaker(std::vector<Link*> links, const MeetLinks& meet, const std::vector<std::string>& hosts)
        : links_(std::move(links)), meet_(meet), hosts_(hosts) {}

    Result<> run() {
        // In the same order everywhere: nobody waits for somebody who waits for him.
        std::ranges::sort(links_, {}, [](const Link* link) { return link->number; });
        for (const Link* link : links_) free_port(*link);
        json ends = json::array();
        for (Link* link : links_)
            if (auto done = offer(*link, ends); !done) return done;
        auto others = meet_(ends);
        if (!others) return std::unexpected(std::move(others.error()));
        for (const json& other : *others) other_[other.value("link", std::int64_t{-1})] = other;
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
    void free_port(const Link& link) const {
        if (link.own.empty() || !link.own.is_here()) return;
        for (const std::string& address : hosts_)
            if (Address::parse(address, link.peer.port()).same(link.peer))
                call_and_hang_up(link.own, link.peer);
    }

    struct Listener {
        Fd fd;
        std::uint16_t port = 0;
    };

    Result<> offer(Link& link, json& ends) {
        json end = {{"link", link.number}, {"side", link.side}};
        if (link.side == 0) {
            const std::string token = tokens_[link.number] = make_token();
            auto fallback = listen(any_address(link.domain), link);
            if (!fallback) return std::unexpected(std::move(fallback.error()));
            end["port"] = *fallback;
            end["token"] = token;
            end["old"] = listen(link.own, link).has_value();
        }
        ends.push_back(std::move(end));
        return {};
    }

    // One for all connections that come to the same address.
    Result<std::uint16_t> listen(const Address& address, const Link& link) {
        const std::string key = fmt::format("{} {}", link.domain, address.words());
        if (const auto known = listeners_.find(key); known != listeners_.end()) return known->second.port;
        Listener listener;
        listener.fd = link.make();
        if (!listener.fd) return fail_errno("socket");
        const int off = 0;
        if (link.domain == AF_INET6)
            ::setsockopt(listener.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (::bind(listener.fd.get(), address.name(), address.length()) != 0 ||
            ::listen(listener.fd.get(), 1024) != 0)
            return fail_errno("{}: listen", address.words());
        set_blocking(listener.fd.get(), false);
        listener.port = Address::of(listener.fd.get()).port();
        return listeners_.emplace(key, std::move(listener)).first->second.port;
    }

    // Whoever calls says a token first; those of other connections are kept for their turn.
    Result<> answer(Link& link) {
        const std::string& token = tokens_.at(link.number);
        const auto until = Clock::now() + accept_patience;
        while (!came_.contains(token)) {
            if (Clock::now() > until)
                return fail_code(ExitCode::timed_out,
                                 "its other part, on {}, has not called within {} s: can it reach this "
                                 "host?",
                                 where(link), accept_patience.count());
            std::vector<pollfd> polled;
            for (const auto& [key, listener] : listeners_) polled.push_back({listener.fd.get(), POLLIN, 0});
            ::poll(polled.data(), polled.size(), 200);
            for (const pollfd& each : polled) {
                if ((each.revents & POLLIN) == 0) continue;
                Fd fd(::accept4(each.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
                if (fd) hear_token(std::move(fd));
            }
        }
        link.fd = std::move(came_.at(token));
        return {};
    }

    void hear_token(Fd fd) {
        std::string said;
        const auto until = Clock::now() + std::chrono::seconds(2);
        while (said.size() < token_size && ready(fd.get(), POLLIN, until)) {
            char part[token_size];
            const ssize_t n = ::recv(fd.get(), part, token_size - said.size(), 0);
            if (n <= 0) return;
            said.append(part, static_cast<std::size_t>(n));
        }
        const bool known =
            std::ranges::any_of(tokens_, [&](const auto& each) { return each.second == said; });
        if (known && said.size() == token_size)
            came_[said] = std::move(fd);  // a second try takes the first one's place
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
    static Result<> exchange(Link& link) {
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
    const MeetLinks& meet_;
    const std::vector<std::string>& hosts_;
    std::map<std::string, Listener> listeners_;
    std::map<std::int64_t, std::string> tokens_;
    std::map<std::int64_t, json> other_;
    std::map<std::string, Fd> came_;
};

}  // namespace

Result<> connect_links(std::vector<Link*> links, const MeetLinks& meet,
                       const std::vector<std::string>& hosts) {
    return LinkMaker(std::move(links), meet, hosts).run();
}

}  // namespace cairn::restart
