#include "resources/tcp/restore_pending.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "resources/tcp/restore_said.h"

namespace cairn::restart {
namespace {

using nlohmann::json;

constexpr int queue_patience_ms = 2000;  // a queue that is full answers nobody; the kernel goes on asking

// 0: connected, or being connected; an errno value.
int call_one(const PendingCall& call, const Address& address) {
    const auto call_now = [&] {
        return ::connect(call.fd, address.name(), address.length()) == 0 ? 0 : errno;
    };
    int problem = call_now();
    // Its port may be in TIME_WAIT: getsockname(2) tells the old name whatever it is.
    if (problem == EADDRNOTAVAIL) {
        call_from_any_port(call.fd);
        problem = call_now();
    }
    if (problem != EINPROGRESS) return problem;
    pollfd polled{call.fd, POLLOUT, 0};
    if (::poll(&polled, 1, call.established ? queue_patience_ms : queue_patience_ms / 40) == 0) return 0;
    problem = 0;
    socklen_t length = sizeof problem;
    ::getsockopt(call.fd, SOL_SOCKET, SO_ERROR, &problem, &length);
    return problem;
}

void make_call(PendingCall& call, const json& other) {
    const auto port = said_number<std::uint16_t>(other, "port");
    std::vector<Address> addresses;
    // One that listens at a single address is at no other.
    if (const std::string only = said_text(other, "at"); !only.empty()) {
        addresses.push_back(Address::parse(only, port));
    } else {
        for (const json& each : other.value("addresses", json::array()))
            if (each.is_string()) addresses.push_back(Address::parse(each.get<std::string>(), port));
        addresses.push_back(Address::loopback(call.domain).with_port(port));  // both parts on one host
    }
    call.problem = "its host has no address";
    for (const Address& each : addresses) {
        const Address address = each.in_domain(call.domain);
        if (address.domain() != call.domain) continue;
        const int problem = call_one(call, address);
        call.problem = problem == 0 ? "" : std::strerror(problem);
        if (problem == 0) return;
    }
}

}  // namespace

Result<> call_listeners(const std::vector<AwaitedCall>& awaited, std::vector<PendingCall>& calls,
                        const MeetLinks& meet) {
    if (awaited.empty() && calls.empty()) return {};
    if (!meet)
        return fail_code(ExitCode::refused,
                         "a connection of this part to one of another host wasn't accepted yet, and the "
                         "session's coordinator knows no other host");
    json ends = json::array();
    for (const AwaitedCall& each : awaited) {
        json end = {{"link", each.number}, {"side", 0}, {"port", each.listener.port()}};
        if (!each.listener.is_any()) end["at"] = each.listener.host_words();
        ends.push_back(std::move(end));
    }
    for (const PendingCall& each : calls) ends.push_back({{"link", each.number}, {"side", 1}});
    auto others = TRY(meet(ends));
    std::map<std::int64_t, json> by_number;
    for (const json& other : others)
        if (other.is_object()) by_number[said_number<std::int64_t>(other, "link")] = other;
    for (PendingCall& call : calls) {
        const auto other = by_number.find(call.number);
        if (other == by_number.end())
            return fail("the coordinator has not said where {} is now", call.listener.words());
        make_call(call, other->second);
    }
    return {};
}

}  // namespace cairn::restart
