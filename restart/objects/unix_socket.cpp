#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>

#include "common/schema/extra.h"
#include "restart/objects/other.h"

namespace cairn::restart {
namespace {

using nlohmann::json;
using schema::Object;

template <class T>
void set(int fd, int option, T value) {
    ::setsockopt(fd, SOL_SOCKET, option, &value, sizeof value);
}

timeval time_of(std::int64_t microseconds) {
    return {microseconds / 1'000'000, microseconds % 1'000'000};
}

// getsockopt tells twice of what setsockopt was given: socket(7).
void set_buffers(int fd, int send, int receive) {
    set(fd, SO_SNDBUFFORCE, send / 2);
    set(fd, SO_RCVBUFFORCE, receive / 2);
    set(fd, SO_SNDBUF, send / 2);
    set(fd, SO_RCVBUF, receive / 2);
}

Result<> fill(const Object& object, int peer) {
    for (const schema::Bytes& message : object.contents) {
        std::size_t done = 0;
        while (done < message.size()) {
            const ssize_t sent =
                ::send(peer, message.data() + done, message.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0)
                return fail_errno("{}: what was on its way ({} bytes) doesn't fit", object.path,
                                  message.size());
            done += static_cast<std::size_t>(sent);
        }
    }
    return {};
}

void set_up(int fd, const json& extra) {
    set_buffers(fd, schema::number<int>(extra, "send_buffer"), schema::number<int>(extra, "receive_buffer"));
    set(fd, SO_PASSCRED, schema::number<int>(extra, "pass_credentials"));
    set(fd, SO_RCVLOWAT, schema::number<int>(extra, "receive_low"));
    set(fd, SO_RCVTIMEO, time_of(schema::number<std::int64_t>(extra, "receive_timeout_us")));
    set(fd, SO_SNDTIMEO, time_of(schema::number<std::int64_t>(extra, "send_timeout_us")));
    const int shut = schema::number<int>(extra, "shutdown");  // RCV_SHUTDOWN 1, SEND_SHUTDOWN 2
    if (shut != 0) ::shutdown(fd, shut == 1 ? SHUT_RD : shut == 2 ? SHUT_WR : SHUT_RDWR);
}

}  // namespace

Result<> open_unix_pair(Opening& opening, std::span<const Object* const> ends) {
    const Object& first = *ends.front();
    if (ends.size() == 1 && first.outside && first.standard >= 0 && first.contents.empty()) {
        const int own = opening.options.standard.at(static_cast<std::size_t>(first.standard));
        if (own >= 0 && opening.keep_copy(first, own)) return {};
    }
    auto extra = schema::unpack(first.extra);
    if (!extra) return std::unexpected(std::move(extra.error()));
    const int style = schema::number<int>(*extra, "style");
    Fd sockets[2];
    const bool lonely =
        style == SOCK_DGRAM && !schema::number<bool>(*extra, "connected") && first.contents.empty();
    if (lonely) {
        sockets[0].reset(::socket(AF_UNIX, style | SOCK_CLOEXEC, 0));
        if (!sockets[0]) return fail_errno("socket");
    } else {
        int pair[2];
        if (::socketpair(AF_UNIX, style | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno("socketpair");
        sockets[0].reset(pair[0]);
        sockets[1].reset(pair[1]);
        // Room for what was on its way; the buffers' own sizes follow.
        for (const Fd& each : sockets) set_buffers(each.get(), 4 << 20, 4 << 20);
    }
    for (std::size_t i = 0; i < ends.size() && i < 2; ++i)
        if (auto done = fill(*ends[i], sockets[1 - i].get()); !done) return done;
    for (std::size_t i = 0; i < ends.size() && i < 2; ++i) {
        auto own = schema::unpack(ends[i]->extra);
        if (!own) return std::unexpected(std::move(own.error()));
        set_up(sockets[i].get(), *own);
        if (::fcntl(sockets[i].get(), F_SETFL, ends[i]->flags & ~O_ASYNC) != 0)
            return fail_errno("F_SETFL of a socket");
        if (auto done = opening.keep(*ends[i], std::move(sockets[i])); !done) return done;
    }
    return {};
}

}  // namespace cairn::restart
