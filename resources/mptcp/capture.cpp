// MPTCP sockets (RFC 8684, since Linux 5.6): TCP's to programs, and several TCP connections underneath. Those
// that aren't connected are described by getsockname(2), getsockopt(2) and poll(2). What older kernels don't
// tell:
// - the backlog before 5.16, which has TCP_INFO for them: it is assumed as large as it may be, with a note;
// - IPV6_V6ONLY before 6.14 (and the updates of older ones that year): a note says what is assumed;
// - IP_FREEBIND, IP_TRANSPARENT and their like of IPv6 before 6.15, though they can be set since 5.17, and
//   likewise the options of TCP that came later: a restart leaves them as they are in a new socket.
// What poll(2) shows is mptcp_poll() of net/mptcp/protocol.c.
//
// A connected one isn't saved: what its two ends have agreed on (keys, numbers of the data, addresses) can be
// neither read nor set. A client that knows only TCP is accepted as a plain TCP socket: those are saved.
#include "resources/socket/capture.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <climits>

#include "resources/capture/table.h"

namespace cairn::capture {
namespace {

// What passes by itself, or when the program does what it is about to do.
Result<> refuse_mptcp_for_now(std::string_view what) {
    auto refused = fail_code(ExitCode::refused, "{}", what);
    refused.error().passing = true;
    return refused;
}

Result<short> poll_mptcp(int fd) {
    pollfd polled{fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    if (::poll(&polled, 1, 0) < 0) return fail_errno("is an MPTCP socket: poll");
    return polled.revents;
}

// A new one can be "written to" (and on newer kernels shows POLLHUP). One that is being connected can't be
// written to, and where a connection has ended there is its end to be read.
bool has_to_do_with_a_connection(short shown) {
    return (shown & (POLLIN | POLLRDHUP)) != 0 || (shown & POLLOUT) == 0;
}

Result<> refuse_connected_mptcp(int fd) {
    // The other end lives on: what is connected in between is seen by the second look at the latest.
    const short before = TRY(poll_mptcp(fd));
    const std::string peer = peer_address(fd);
    if (!peer.empty())
        return fail_code(ExitCode::refused,
                         "is an MPTCP socket that is connected to {}: what the two ends have agreed on is "
                         "known to the kernel alone, so it can't be saved; close it before a checkpoint, or "
                         "have the program use plain TCP (Go: GODEBUG=multipathtcp=0)",
                         address_words(peer));
    const short shown = static_cast<short>(before | TRY(poll_mptcp(fd)));
    // SO_ERROR would take it, and nothing can put it back.
    if ((shown & POLLERR) != 0)
        return refuse_mptcp_for_now(
            "is an MPTCP socket that failed to connect, and keeps the error until it is asked for "
            "(SO_ERROR): this can't be saved; ask for it, or close the socket, before a checkpoint");
    if (has_to_do_with_a_connection(before) || has_to_do_with_a_connection(shown))
        return refuse_mptcp_for_now(
            "is an MPTCP socket with a connection that is being made, or that has ended: this can't be "
            "saved; close it before a checkpoint, or have the program use plain TCP (Go: "
            "GODEBUG=multipathtcp=0)");
    return {};
}

Result<> refuse_waiting_mptcp(int fd) {
    const short shown = TRY(poll_mptcp(fd));
    if ((shown & POLLIN) != 0)
        return refuse_mptcp_for_now(
            "is an MPTCP socket that listens, and a connection waits in it: such a connection can't be "
            "saved before it is accepted, and then only if it is of plain TCP; accept it before a "
            "checkpoint, and close it if it is of MPTCP");
    return {};
}

// As many as the system allows where the kernel doesn't tell.
std::uint32_t backlog_of(Table& table, const Description& found) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (::getsockopt(found.fd(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == TCP_LISTEN)
        return info.tcpi_sacked;
    table.note(
        "{} is an MPTCP socket that listens: this kernel doesn't tell how many connections may wait in it, "
        "after a restart it is as many as the system allows (net.core.somaxconn)",
        found.who());
    return INT_MAX;
}

bool tells_whether_ipv6_only(int fd) {
    int only = 0;
    socklen_t length = sizeof only;
    return ::getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &length) == 0;
}

}  // namespace

bool is_mptcp_socket(const Looked& it) {
    return it.internet() && it.protocol == IPPROTO_MPTCP;
}

Result<> describe_mptcp_socket(Table& table, const Description& found, schema::Object& object) {
    const int fd = found.fd();
    const bool listening = socket_option<int>(fd, SOL_SOCKET, SO_ACCEPTCONN) != 0;
    if (listening)
        CHECK_OK(refuse_waiting_mptcp(fd));
    else
        CHECK_OK(refuse_connected_mptcp(fd));
    auto& saved = object.what.emplace<schema::Mptcp>();
    saved.domain = socket_option<int>(fd, SOL_SOCKET, SO_DOMAIN);
    const std::string own = own_address(fd);
    // Neither an address nor a port. A socket that failed to connect keeps the name that it had for that: it
    // is bound to it after a restart.
    const bool bound = std::ranges::any_of(plain_address(own), [](char byte) { return byte != 0; });
    if (bound) saved.own = schema::to_bytes(as_known(table.options.region, own));
    if (bound && saved.domain == AF_INET6 && !tells_whether_ipv6_only(fd))
        table.note(
            "{} is an MPTCP socket that is bound to {}: this kernel doesn't tell whether it is for IPv6 "
            "only, after a restart it is as the system has it for new ones (net.ipv6.bindv6only)",
            found.who(), address_words(own));
    if (listening) saved.backlog = backlog_of(table, found);
    saved.keep_listening = listening && table.options.external == ExternalPolicy::keep_listening;
    saved.reuse_address = socket_option<int>(fd, SOL_SOCKET, SO_REUSEADDR);
    saved.options = socket_options_of(fd);
    return {};
}

}  // namespace cairn::capture
