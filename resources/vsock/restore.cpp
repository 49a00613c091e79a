// vsock(7): made again, with its name and options, and listening.
#include "resources/socket/restore.h"

#include <linux/vm_sockets.h>
#include <sys/time.h>

#include <climits>

#include "resources/namespace/restore.h"
#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

// SO_VM_SOCKETS_BUFFER_*; each is accepted as it is.
void set_bytes(int fd, int option, std::uint64_t bytes) {
    ::setsockopt(fd, AF_VSOCK, option, &bytes, sizeof bytes);
}

Result<> bind_vsock(int fd, const schema::VsockAddress& own) {
    sockaddr_vm name{};
    name.svm_family = AF_VSOCK;
    name.svm_cid = own.cid;
    name.svm_port = own.port;
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) return {};
    if (errno == EADDRINUSE)
        return fail_code(
            ExitCode::refused,
            "port {} of vsocks is taken: a restored program is bound to it; end who has it and restart again",
            own.port);
    if (errno == EADDRNOTAVAIL)
        return fail_code(ExitCode::refused,
                         "this machine has no CID {}: a restored program has a vsock that is bound to it",
                         own.cid);
    if (errno == EACCES)
        return fail_code(ExitCode::refused,
                         "port {} of vsocks is for root (CAP_NET_BIND_SERVICE): restart as root", own.port);
    return fail_errno("vsock: bind to port {} of CID {}", own.port, own.cid);
}

// In its network: newer kernels have CIDs and ports for each.
Result<Fd> make_vsock(const schema::Vsock& saved) {
    Fd fd(::socket(AF_VSOCK, (saved.seqpacket ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC, 0));
    if (!fd && errno == EAFNOSUPPORT)
        return fail_code(ExitCode::refused, "this kernel has no vsocks (module vsock)");
    if (!fd) return fail_errno("vsock");
    set_int(fd.get(), SOL_SOCKET, SO_REUSEADDR, saved.reuse_address);
    set_socket_options(fd.get(), saved.options, schema::OptionMoment::before_bind);
    if (saved.own) CHECK_OK(bind_vsock(fd.get(), *saved.own));
    // SO_RCVLOWAT may be as much as the buffer is when it is set, and stays when that gets smaller.
    for (const int option : {SO_VM_SOCKETS_BUFFER_MAX_SIZE, SO_VM_SOCKETS_BUFFER_SIZE})
        set_bytes(fd.get(), option, INT_MAX);
    set_socket_options(fd.get(), saved.options, schema::OptionMoment::last);
    set_buffers(fd.get(), saved.options);
    // The size is kept between what the limits are when any of the three is set: it comes last.
    set_bytes(fd.get(), SO_VM_SOCKETS_BUFFER_MAX_SIZE, saved.buffer.most);
    set_bytes(fd.get(), SO_VM_SOCKETS_BUFFER_MIN_SIZE, saved.buffer.least);
    set_bytes(fd.get(), SO_VM_SOCKETS_BUFFER_SIZE, saved.buffer.size);
    const timeval patience{saved.connect_seconds, saved.connect_microseconds};
    ::setsockopt(fd.get(), AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience, sizeof patience);
    // The kernel cuts it to net.core.somaxconn.
    if (saved.listening && ::listen(fd.get(), INT_MAX) != 0) return fail_errno("vsock: listen");
    return fd;
}

}  // namespace

Result<Fd> open_vsock(Opening& opening, const schema::Object& object, const schema::Vsock& saved) {
    Result<Fd> made = Fd();
    CHECK_OK(in_own_space(opening, object.network, [&]() -> Result<> {
        made = make_vsock(saved);
        return {};
    }));
    return made;
}

}  // namespace cairn::restart
