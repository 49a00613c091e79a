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
                          Json greeting = handler_.greeting();
                          greeting["type"] = "host";
                          Json addresses = Json::array({link_->own_address()});
                          for (const std::string& each : own_addresses())
                              if (each != link_->own_address()) addresses.push_back(each);
                          greeting["addresses"] = addresses;
                          link_->send(greeting);
                      },
                  .message = [this](const Json& message) { said(message); },
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

void Uplink::said(const Json& message) {
    const std::string type = get_string(message, "type");
    if (type == "welcome") {
        welcomed_ = true;
        problem_.clear();
        handler_.connected(message);
    } else if (type == "refused") {
        const std::string why = get_string(message, "reason");
        if (link_) link_->close();
        if (why != problem_) handler_.note("the root refuses this host: " + why);
        ended(why);
        handler_.refused(why);
    } else if (!welcomed_) {
        return;
    } else if (type == "state") {
        handler_.state(message);
    } else if (type == "answer") {
        handler_.answer(static_cast<std::uint64_t>(get_number(message, "client")),
                        message.value("event", Json::object()));
    } else if (type == "order") {
        handler_.order(static_cast<std::uint64_t>(get_number(message, "id")),
                       message.value("order", Json::object()));
    }
}

void Uplink::flush() {
    batching_ = false;
    if (!welcomed_) return;
    for (std::size_t at = 0; at < fresh_.size(); at += most_members) {
        Json members = Json::array();
        for (std::size_t i = at; i < std::min(fresh_.size(), at + most_members); ++i)
            members.push_back(std::move(fresh_[i]));
        link_->send({{"type", "joined"}, {"members", std::move(members)}});
    }
    fresh_.clear();
    if (!gone_.empty()) link_->send({{"type", "left"}, {"uids", gone_}});
    gone_.clear();
}

void Uplink::joined(const Json& member) {
    if (!welcomed_) return;
    fresh_.push_back(member);
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
    link_->send({{"type", "starting"}, {"count", count}});
}

void Uplink::ask(std::uint64_t client, const Json& request) {
    if (!welcomed_) return;
    flush();
    link_->send({{"type", "ask"}, {"client", client}, {"request", request}});
}

void Uplink::gone(std::uint64_t client) {
    if (welcomed_) link_->send({{"type", "gone"}, {"client", client}});
}

void Uplink::report(std::uint64_t conversation, const Json& event) {
    if (!welcomed_) return;
    flush();
    link_->send({{"type", "report"}, {"id", conversation}, {"event", event}});
}

}  // namespace cairn::coordinator
