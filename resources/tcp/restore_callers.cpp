#include "resources/tcp/restore_callers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

namespace cairn::restart {
namespace {

constexpr auto word_patience = std::chrono::seconds(5);  // from the call to its last byte
constexpr std::size_t most_callers = 256;                // that have not said their token
constexpr int most_at_once = 64;                         // accepted, before others are heard

std::string make_token() {
    unsigned char bytes[TcpCallers::token_size / 2];
    std::string text;
    if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return text;
    for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

}  // namespace

Result<std::uint16_t> TcpCallers::listen(const Address& address, int domain,
                                         const std::function<Fd()>& make) {
    const std::string key = fmt::format("{} {}", domain, address.words());
    if (const auto known = listeners_.find(key); known != listeners_.end()) return known->second.port;
    Listener listener;
    listener.fd = make();
    if (!listener.fd) return fail_errno("socket");
    const int off = 0;
    if (domain == AF_INET6) ::setsockopt(listener.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (::bind(listener.fd.get(), address.name(), address.length()) != 0 ||
        ::listen(listener.fd.get(), 1024) != 0)
        return fail_errno("{}: listen", address.words());
    ::fcntl(listener.fd.get(), F_SETFL, ::fcntl(listener.fd.get(), F_GETFL) | O_NONBLOCK);
    listener.port = Address::of(listener.fd.get()).port();
    return listeners_.emplace(key, std::move(listener)).first->second.port;
}

Result<TcpCallers::Ticket> TcpCallers::expect() {
    auto key = TRY(Key::random());
    Ticket ticket{make_token(), key};
    if (ticket.token.empty()) return fail_errno("no random numbers");
    expected_.emplace(ticket.token, ticket.key);
    return ticket;
}

// Who is silent has his place until somebody newer needs it: what a caller of ours says is behind his SYN.
// Who has said a token that is expected goes last: he is ours, or has seen it on its way.
void TcpCallers::make_room() {
    auto last =
        std::ranges::find_if(callers_, [](const Caller& caller) { return caller.channel == nullptr; });
    callers_.erase(last == callers_.end() ? callers_.begin() : last);
}

void TcpCallers::accept_from(const Listener& listener) {
    for (int i = 0; i < most_at_once; ++i) {
        Fd fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd) return;
        if (callers_.size() >= most_callers) make_room();
        callers_.push_back({std::move(fd), {}, nullptr, Clock::now() + word_patience});
    }
}

TcpCallers::Heard TcpCallers::hear(Caller& caller) const {
    if (caller.channel == nullptr) {
        char part[token_size];
        const ssize_t n = ::recv(caller.fd.get(), part, token_size - caller.said.size(), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return Clock::now() > caller.until ? Heard::nonsense : Heard::more_to_come;
        if (n <= 0) return Heard::nonsense;
        caller.said.append(part, static_cast<std::size_t>(n));
        if (caller.said.size() < token_size) return Heard::more_to_come;
        const auto expected = expected_.find(caller.said);
        if (expected == expected_.end()) return Heard::nonsense;
        caller.channel =
            std::make_unique<Channel>(Channel::Role::root, expected->second, Channel::Between::parts);
    }
    return hear_proof(caller);
}

TcpCallers::Heard TcpCallers::hear_proof(Caller& caller) {
    while (!caller.channel->proved()) {
        char part[Channel::longest_greeting];
        const std::size_t most = std::min(caller.channel->wanted(), sizeof part);
        const ssize_t n = ::recv(caller.fd.get(), part, most, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return Clock::now() > caller.until ? Heard::nonsense : Heard::more_to_come;
        if (n <= 0) return Heard::nonsense;
        if (!caller.channel->feed({part, static_cast<std::size_t>(n)})) return Heard::nonsense;
        // A hundred bytes on a connection that has carried none: there is room.
        const std::string said = std::exchange(caller.channel->output, {});
        if (::send(caller.fd.get(), said.data(), said.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
            static_cast<ssize_t>(said.size()))
            return Heard::nonsense;
    }
    return Heard::proved;
}

void TcpCallers::hear_all() {
    std::deque<Caller> silent;
    for (Caller& caller : callers_) {
        const Heard heard = hear(caller);
        if (heard == Heard::proved)  // a second try takes the first one's place
            came_[caller.said] = {std::move(caller.fd), std::move(caller.channel)};
        else if (heard == Heard::more_to_come)
            silent.push_back(std::move(caller));
        else if (caller.channel != nullptr)
            ++unproved_;
    }
    callers_ = std::move(silent);
}

short TcpCallers::wait(int fd, short events, std::chrono::milliseconds patience) {
    std::vector<pollfd> polled;
    polled.push_back({fd, events, 0});
    for (const auto& [key, listener] : listeners_) polled.push_back({listener.fd.get(), POLLIN, 0});
    for (const Caller& caller : callers_) polled.push_back({caller.fd.get(), POLLIN, 0});
    // Not for longer than the first of the silent may be.
    if (::poll(polled.data(), polled.size(),
               static_cast<int>(std::clamp<std::int64_t>(patience.count(), 0, 200))) <= 0)
        polled.front().revents = 0;
    for (const auto& [key, listener] : listeners_) accept_from(listener);
    hear_all();
    return polled.front().revents;
}

TcpCallers::Came TcpCallers::take(const std::string& token, std::chrono::milliseconds patience) {
    const auto until = Clock::now() + patience;
    for (;;) {
        if (const auto came = came_.find(token); came != came_.end()) {
            Came found = std::move(came->second);
            came_.erase(came);
            expected_.erase(token);
            return found;
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        if (left.count() <= 0) return {};
        (void)wait(-1, 0, left);
    }
}

}  // namespace cairn::restart
