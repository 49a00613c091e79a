#include "coordinator/uplink.h"

#include "common/error.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto retry = 1000ms, batch = 10ms;
constexpr std::size_t most_members = 1000;  // in one message

}  // namespace

Uplink::Uplink(asio::io_context& io, Endpoint root, Key key, Handler handler)
    : io_(io), root_(std::move(root)), key_(key), handler_(std::move(handler)), again_(io), batch_(io) {}

void Uplink::start() {
    call_root();
}

void Uplink::stop() {
    stopped_ = true;
    again_.cancel();
    batch_.cancel();
    if (link_) link_->close();
    welcomed_ = false;
}

void Uplink::call_root() {
    if (stopped_) return;
    auto socket = call(root_);
    if (!socket) return ended(socket.error().what);
    link_ = std::make_shared<Link>(io_, std::move(*socket), Channel::Role::relay, key_, link_limits());
    link_->start({.ready =
                      [this] {
                          wire::HostGreeting greeting = handler_.greeting();
                          greeting.addresses.push_back(link_->own_address());
                          for (const std::string& each : own_addresses())
                              if (each != link_->own_address()) greeting.addresses.push_back(each);
                          link_->send(pack(greeting));
                      },
                  .message =
                      [this](const Json& message) {
                          if (const auto understood = said(message); !understood)
                              handler_.note("the root says what can't be understood: " +
                                            understood.error().what);
                      },
                  .ended =
                      [this](const std::string& why) {
                          const bool unproved = link_ && link_->was_turned_away();
                          ended(why);
                          if (unproved) handler_.refused(why);
                      }});
}

void Uplink::ended(const std::string& why) {
    const bool was = std::exchange(welcomed_, false);
    problem_ = why;
    fresh_.clear();  // the next greeting has everybody
    gone_.clear();
    if (was) handler_.lost(why);
    if (stopped_) return;
    again_.expires_after(retry);
    again_.async_wait([this](const boost::system::error_code& error) {
        if (!error) call_root();
    });
}

Result<> Uplink::said(const Json& message) {
    const std::string type = get_string(message, "type");
    if (type == wire::Welcome::name.value) {
        const auto welcome = TRY(wire::unpack<wire::Welcome>(message));
        welcomed_ = true;
        problem_.clear();
        handler_.connected(welcome);
    } else if (type == wire::Refused::name.value) {
        refused(TRY(wire::unpack<wire::Refused>(message)).reason);
    } else if (!welcomed_) {
        return {};
    } else if (type == wire::State::name.value) {
        handler_.state(TRY(wire::unpack<wire::State>(message)));
    } else if (type == wire::Answer::name.value) {
        const auto answer = TRY(wire::unpack<wire::Answer>(message));
        handler_.answer(answer.client, answer.event);
    } else if (type == wire::Order::name.value) {
        const auto order = TRY(wire::unpack<wire::Order>(message));
        handler_.order(order.id, order.order);
    }
    return {};
}

void Uplink::refused(const std::string& why) {
    if (link_) link_->close();
    if (why != problem_) handler_.note("the root refuses this host: " + why);
    ended(why);
    handler_.refused(why);
}

void Uplink::flush() {
    batching_ = false;
    if (!welcomed_) return;
    for (std::size_t at = 0; at < fresh_.size(); at += most_members) {
        wire::Joined some;
        for (std::size_t i = at; i < std::min(fresh_.size(), at + most_members); ++i)
            some.members.push_back(std::move(fresh_[i]));
        link_->send(pack(some));
    }
    fresh_.clear();
    if (!gone_.empty()) link_->send(pack(wire::Left{.uids = gone_}));
    gone_.clear();
}

void Uplink::joined(wire::HostMember member) {
    if (!welcomed_) return;
    fresh_.push_back(std::move(member));
    if (std::exchange(batching_, true)) return;
    batch_.expires_after(batch);
    batch_.async_wait([this](const boost::system::error_code& error) {
        if (!error) flush();
    });
}

void Uplink::left(const std::string& uid) {
    if (!welcomed_) return;
    gone_.push_back(uid);
    if (std::exchange(batching_, true)) return;
    batch_.expires_after(batch);
    batch_.async_wait([this](const boost::system::error_code& error) {
        if (!error) flush();
    });
}

// In order: what was said to the root before is known to it when it hears this.
void Uplink::starting(std::size_t count) {
    if (!welcomed_) return;
    flush();
    link_->send(pack(wire::Starting{.count = static_cast<std::uint32_t>(count)}));
}

void Uplink::ask(std::uint64_t client, const Json& request) {
    if (!welcomed_) return;
    flush();
    link_->send(pack(wire::Ask{.client = client, .request = request}));
}

void Uplink::gone(std::uint64_t client) {
    if (welcomed_) link_->send(pack(wire::Gone{.client = client}));
}

void Uplink::report(std::uint64_t conversation, const Json& event) {
    if (!welcomed_) return;
    flush();
    link_->send(pack(wire::Report{.id = conversation, .event = event}));
}

}  // namespace cairn::coordinator
