#include "resources/tcp/restore_pending.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <map>

namespace cairn::restart {
namespace {

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

void make_call(PendingCall& call, const wire::PartEnd& other) {
    std::vector<Address> addresses;
    // One that listens at a single address is at no other.
    if (!other.at.empty()) {
        addresses.push_back(Address::parse(other.at, other.port));
    } else {
        for (const std::string& each : other.addresses) addresses.push_back(Address::parse(each, other.port));
        addresses.push_back(Address::loopback(call.domain).with_port(other.port));  // both parts on one host
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
    std::vector<wire::PartEnd> ends;
    for (const AwaitedCall& each : awaited)
        ends.push_back({.link = each.number,
                        .port = each.listener.port(),
                        .at = each.listener.is_any() ? "" : each.listener.host_words()});
    for (const PendingCall& each : calls) ends.push_back({.link = each.number, .side = 1});
    std::map<std::int64_t, wire::PartEnd> by_number;
    for (wire::PartEnd& other : TRY(meet(std::move(ends)))) {
        const auto number = other.link;
        by_number[number] = std::move(other);
    }
    for (PendingCall& call : calls) {
        const auto other = by_number.find(call.number);
        if (other == by_number.end())
            return fail("the coordinator has not said where {} is now", call.listener.words());
        make_call(call, other->second);
    }
    return {};
}

}  // namespace cairn::restart
