// vsock(7): sockets between a virtual machine and its host. Those that aren't connected are described by
// getsockname(2), getsockopt(2) and poll(2), by every kernel that has them (Linux 3.9; SOCK_SEQPACKET since
// 5.14). No kernel tells the backlog of listen(2), sock_diag(7) neither. What poll(2) shows is vsock_poll()
// of net/vmw_vsock/af_vsock.c.
#include "resources/socket/capture.h"

#include <linux/vm_sockets.h>
#include <poll.h>
#include <sys/time.h>

#include <algorithm>
#include <cstring>

#include "resources/capture/table.h"

namespace cairn::capture {
namespace {

sockaddr_vm vsock_address(const std::string& address) {
    sockaddr_vm parts{};
    std::memcpy(&parts, address.data(), std::min(address.size(), sizeof parts));
    return parts;
}

// What passes by itself, or when the program does what it is about to do.
Result<> refuse_for_now(std::string_view what) {
    auto refused = fail_code(ExitCode::refused, "{}", what);
    refused.error().passing = true;
    return refused;
}

// One that has to do with another machine, or had, and the program may not know yet that this is over.
Result<> refuse_connected(int fd, bool listening) {
    if (const std::string peer = peer_address(fd); !peer.empty()) {
        const sockaddr_vm other = vsock_address(peer);
        return fail_code(
            ExitCode::refused,
            "is a vsock that is connected to port {} of CID {}: that leads to another virtual machine or "
            "its host, and can't be saved; close it before a checkpoint",
            other.svm_port, other.svm_cid);
    }
    pollfd polled{fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    if (::poll(&polled, 1, 0) < 0) return fail_errno("is a vsock: poll");
    const int shown = polled.revents;
    // SO_ERROR would take it, and nothing can put it back.
    if ((shown & POLLERR) != 0)
        return refuse_for_now(
            "is a vsock that failed to connect, and keeps the error until it is asked for (SO_ERROR): this "
            "can't be saved; ask for it, or close the socket, before a checkpoint");
    if (listening && (shown & POLLIN) != 0)
        return refuse_for_now(
            "is a vsock that listens, and a connection waits in it: that leads to another virtual machine "
            "or its host, and can't be saved; accept and close it before a checkpoint");
    // One that was never connected can be "written to", and no more. One that is being connected shows
    // nothing; where shutdown(2) was called there is no peer to ask for, but more to be seen, or no writing.
    if (!listening && shown != POLLOUT)
        return refuse_for_now(
            "is a vsock with a connection that is being made, or that was shut down: that leads to another "
            "virtual machine or its host, and can't be saved; close it before a checkpoint");
    return {};
}

}  // namespace

// Datagrams are for VMware's transport alone, which hardly anybody has.
bool is_vsock(const Looked& it) {
    return it.domain == AF_VSOCK && (it.style == SOCK_STREAM || it.style == SOCK_SEQPACKET);
}

Result<> describe_vsock(Table& table, const Description& found, schema::Object& object) {
    const int fd = found.fd();
    const bool listening = socket_option<int>(fd, SOL_SOCKET, SO_ACCEPTCONN) != 0;
    CHECK_OK(refuse_connected(fd, listening));
    if (listening)
        table.note(
            "{} is a vsock that listens: the kernel doesn't tell how many connections may wait in it, after "
            "a restart it is as many as the system allows (net.core.somaxconn)",
            found.who());
    auto& saved = object.what.emplace<schema::Vsock>();
    saved.seqpacket = socket_option<int>(fd, SOL_SOCKET, SO_TYPE) == SOCK_SEQPACKET;
    const sockaddr_vm own = vsock_address(own_address(fd));
    if (own.svm_port != VMADDR_PORT_ANY) saved.own = {.cid = own.svm_cid, .port = own.svm_port};
    saved.listening = listening;
    saved.buffer = {.size = socket_option<std::uint64_t>(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE),
                    .least = socket_option<std::uint64_t>(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_MIN_SIZE),
                    .most = socket_option<std::uint64_t>(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_MAX_SIZE)};
    const auto patience = socket_option<timeval>(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT);
    saved.connect_seconds = patience.tv_sec;
    saved.connect_microseconds = patience.tv_usec;
    saved.reuse_address = socket_option<int>(fd, SOL_SOCKET, SO_REUSEADDR);
    saved.options = socket_options_of(fd);
    return {};
}

}  // namespace cairn::capture
