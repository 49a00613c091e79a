// Messages: the ids of their senders, and the hosts that they go to and come from. They are sent to where a
// host is now, and are said to come from where programs know it; while no host has moved that costs a load.
#include <alloca.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "hijack/ids.h"
#include "hijack/moved.h"
#include "hijack/next.h"
#include "hijack/timing.h"

using namespace cairn;
using namespace cairn::hijack;

// The fortified form has no declaration outside libc's inline functions.
extern "C" ssize_t __recvfrom_chk(int, void*, std::size_t, std::size_t, int, struct sockaddr*, socklen_t*);

namespace {

// The credentials among the ancillary data.
template <class Each>
void for_each_credentials(struct msghdr* message, Each each) {
    for (struct cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS &&
            part->cmsg_len >= CMSG_LEN(sizeof(struct ucred)))
            each(CMSG_DATA(part));
}

void translate_received(struct msghdr* message) {
    for_each_credentials(message, [](unsigned char* data) {
        struct ucred credentials;
        std::memcpy(&credentials, data, sizeof credentials);
        credentials.pid = virtual_id(credentials.pid);
        std::memcpy(data, &credentials, sizeof credentials);
    });
}

// Calls `send` with the message whose credentials name the sender as the kernel does. The program's own is
// left alone.
template <class Send>
[[gnu::noinline]] ssize_t with_real_credentials(const struct msghdr* message, Send send) {
    struct msghdr copy = *message;
    copy.msg_control = ::alloca(message->msg_controllen);
    std::memcpy(copy.msg_control, message->msg_control, message->msg_controllen);
    for_each_credentials(&copy, [](unsigned char* data) {
        struct ucred credentials;
        std::memcpy(&credentials, data, sizeof credentials);
        credentials.pid = real_id(credentials.pid);
        std::memcpy(data, &credentials, sizeof credentials);
    });
    return send(&copy);
}

// A call that was under way when the checkpoint was taken returns after the restart: whether a host has moved
// is asked when it has.
template <class Call>
ssize_t received(struct sockaddr* from, socklen_t* size, Call call) {
    const socklen_t room = from != nullptr && size != nullptr ? *size : 0;
    const ssize_t result = call();
    if (result >= 0 && room != 0) tell_known(from, room, *size);
    return result;
}

socklen_t room_for_name(const struct msghdr& message) {
    return message.msg_name != nullptr ? message.msg_namelen : 0;
}

constexpr unsigned most_messages = 1024;  // UIO_MAXIOV: more of them the kernel doesn't take at once

}  // namespace

CAIRN_EXPORT ssize_t sendto(int fd, const void* data, std::size_t length, int flags,
                            const struct sockaddr* to, socklen_t size) {
    const MovedAddress now(to, size);
    return next<"sendto">(&::sendto)(fd, data, length, flags, now.moved() ? now.get() : to, size);
}

CAIRN_EXPORT ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
    const auto real = next<"sendmsg">(&::sendmsg);
    if (message == nullptr || (moved_hosts() == nullptr && !ids_are_virtual()))
        return real(fd, message, flags);
    struct msghdr changed;
    MovedAddress now(message->msg_name, message->msg_namelen);
    if (now.moved()) {
        changed = *message;
        changed.msg_name = now.get();
        message = &changed;
    }
    bool names_us = false;
    if (ids_are_virtual() && message->msg_controllen != 0) {
        struct msghdr view = *message;
        for_each_credentials(&view, [&](unsigned char*) { names_us = true; });
    }
    if (!names_us) return real(fd, message, flags);
    return with_real_credentials(message, [=](const struct msghdr* other) { return real(fd, other, flags); });
}

// Where a host has moved: one after the other, as the kernel does it.
CAIRN_EXPORT int sendmmsg(int fd, struct mmsghdr* messages, unsigned count, int flags) {
    if (moved_hosts() == nullptr || messages == nullptr)
        return next<"sendmmsg">(&::sendmmsg)(fd, messages, count, flags);
    if (count > most_messages) count = most_messages;
    for (unsigned n = 0; n < count; ++n) {
        const ssize_t sent = sendmsg(fd, &messages[n].msg_hdr, flags);
        if (sent < 0) return n == 0 ? -1 : static_cast<int>(n);
        messages[n].msg_len = static_cast<unsigned>(sent);
    }
    return static_cast<int>(count);
}

CAIRN_EXPORT ssize_t recvfrom(int fd, void* data, std::size_t length, int flags, struct sockaddr* from,
                              socklen_t* size) {
    return received(from, size,
                    [=] { return next<"recvfrom">(&::recvfrom)(fd, data, length, flags, from, size); });
}

CAIRN_EXPORT ssize_t __recvfrom_chk(int fd, void* data, std::size_t length, std::size_t room, int flags,
                                    struct sockaddr* from, socklen_t* size) {
    return received(from, size, [=] {
        return next<"__recvfrom_chk">(&::__recvfrom_chk)(fd, data, length, room, flags, from, size);
    });
}

CAIRN_EXPORT ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
    const socklen_t room = message != nullptr ? room_for_name(*message) : 0;
    const ssize_t result = next<"recvmsg">(&::recvmsg)(fd, message, flags);
    if (result < 0) return result;
    if (room != 0) tell_known(message->msg_name, room, message->msg_namelen);
    if (ids_are_virtual()) translate_received(message);
    return result;
}

CAIRN_EXPORT int recvmmsg(int fd, struct mmsghdr* messages, unsigned int count, int flags,
                          struct timespec* timeout) {
    const auto real = next<"recvmmsg">(&::recvmmsg);
    if (region() == nullptr || messages == nullptr) return real(fd, messages, count, flags, timeout);
    if (count > most_messages) count = most_messages;
    const Noted note(SYS_recvmmsg, Noted::nanoseconds(timeout));
    // The kernel writes the lengths of the names over those of the rooms for them.
    std::uint8_t rooms[most_messages];
    for (unsigned n = 0; n < count; ++n) {
        const socklen_t room = room_for_name(messages[n].msg_hdr);
        rooms[n] = static_cast<std::uint8_t>(room < 255 ? room : 255);
    }
    const int result = real(fd, messages, count, flags, timeout);
    for (int n = 0; n < result; ++n) {
        struct msghdr& message = messages[n].msg_hdr;
        if (rooms[n] != 0) tell_known(message.msg_name, rooms[n], message.msg_namelen);
        if (ids_are_virtual()) translate_received(&message);
    }
    return result;
}
