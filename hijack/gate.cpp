#include "hijack/gate.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "hijack/raw.h"

namespace cairn::hijack {
namespace {

constexpr long patience_s = 5;

long receive_descriptor(long socket) {
    char byte = 0;
    iovec place = {&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    const long size = raw::call(SYS_recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
    if (raw::failed(size)) return size;
    const cmsghdr* part = CMSG_FIRSTHDR(&message);
    if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
        part->cmsg_len != CMSG_LEN(sizeof(int)))
        return -EACCES;  // we aren't let in
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    return fd;
}

long ask(long socket, const sockaddr_un& address, std::size_t length, unsigned owner) {
    const timeval patience = {patience_s, 0};
    raw::call(SYS_setsockopt, socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    raw::call(SYS_setsockopt, socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // connect
    long done = raw::call(SYS_connect, socket, &address, length);
    if (raw::failed(done)) return done;
    ucred who = {};
    socklen_t size = sizeof who;
    done = raw::call(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, &who, &size);
    if (raw::failed(done)) return done;
    return who.uid == owner ? receive_descriptor(socket) : -EACCES;
}

}  // namespace

long ask_at_gate(const char* gate) {
    unsigned owner = 0;
    for (; *gate >= '0' && *gate <= '9'; ++gate) owner = owner * 10 + static_cast<unsigned>(*gate - '0');
    return *gate == ':' ? ask_at_gate(owner, gate + 1) : -EINVAL;
}

long ask_at_gate(unsigned owner, const char* name) {
    const std::size_t size = std::strlen(name);
    sockaddr_un address = {};
    if (size == 0 || size >= sizeof address.sun_path) return -EINVAL;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name, size);
    const long socket = raw::call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (raw::failed(socket)) return socket;
    const long fd = ask(socket, address, offsetof(sockaddr_un, sun_path) + 1 + size, owner);
    raw::call(SYS_close, socket);
    return fd;
}

}  // namespace cairn::hijack
