// Unix sockets that are connected to each other, with what is on its way; and those whose peer is outside or
// has gone.
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

#include "capture/objects/table.h"
#include "common/file_identity.h"
#include "common/schema/extra.h"

namespace cairn::capture {
namespace {

constexpr int state_listen = 10;  // TCP_LISTEN of the kernel's tcp_states.h, used for Unix sockets as well

// As NLMSG_ALIGN and NLA_ALIGN, which mix signed and unsigned.
constexpr std::size_t aligned(std::size_t size) {
    return (size + 3) / 4 * 4;
}

struct Diagnosis {
    int state = 0;
    ino_t peer = 0;
    int shutdown = 0;  // RCV_SHUTDOWN 1, SEND_SHUTDOWN 2
    bool named = false;
};

// sock_diag(7), unix_diag: the peer of a socket is told by nothing else.
Result<Diagnosis> diagnose(ino_t inode) {
    const Fd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink) return fail_errno("sock_diag");
    struct {
        nlmsghdr header{};
        unix_diag_req body{};
    } ask;
    ask.header.nlmsg_len = sizeof ask;
    ask.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    ask.header.nlmsg_flags = NLM_F_REQUEST;
    ask.body.sdiag_family = AF_UNIX;
    ask.body.udiag_states = ~0U;
    ask.body.udiag_ino = static_cast<__u32>(inode);
    ask.body.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER;
    ask.body.udiag_cookie[0] = ask.body.udiag_cookie[1] = ~0U;  // any
    if (::send(netlink.get(), &ask, sizeof ask, 0) < 0) return fail_errno("sock_diag");
    alignas(nlmsghdr) char answer[4096];
    const ssize_t length = ::recv(netlink.get(), answer, sizeof answer, 0);
    if (length < static_cast<ssize_t>(sizeof(nlmsghdr))) return fail_errno("sock_diag");
    nlmsghdr header{};
    std::memcpy(&header, answer, sizeof header);
    if (header.nlmsg_type == NLMSG_ERROR) {
        nlmsgerr problem{};
        std::memcpy(&problem, answer + aligned(sizeof header), sizeof problem);
        errno = -problem.error;
        return fail_errno("sock_diag doesn't know this socket (it may be in another network namespace)");
    }
    Diagnosis found;
    unix_diag_msg message{};
    std::memcpy(&message, answer + aligned(sizeof header), sizeof message);
    found.state = message.udiag_state;
    std::size_t at = aligned(sizeof header) + aligned(sizeof message);
    while (at + sizeof(nlattr) <= static_cast<std::size_t>(length)) {
        nlattr attribute{};
        std::memcpy(&attribute, answer + at, sizeof attribute);
        if (attribute.nla_len < sizeof attribute) break;
        const char* value = answer + at + aligned(sizeof attribute);
        if (attribute.nla_type == UNIX_DIAG_PEER) {
            __u32 peer = 0;
            std::memcpy(&peer, value, sizeof peer);
            found.peer = peer;
        }
        if (attribute.nla_type == UNIX_DIAG_SHUTDOWN) found.shutdown = static_cast<unsigned char>(*value);
        if (attribute.nla_type == UNIX_DIAG_NAME) found.named = true;
        at += aligned(attribute.nla_len);
    }
    return found;
}

template <class T>
T option(int fd, int name) {
    T value{};
    socklen_t length = sizeof value;
    ::getsockopt(fd, SOL_SOCKET, name, &value, &length);
    return value;
}

// SO_PEEK_OFF makes each look begin where the last one ended.
class PeekOffset {
  public:
    explicit PeekOffset(int fd) : fd_(fd), before_(option<int>(fd, SO_PEEK_OFF)) { set(0); }
    PeekOffset(const PeekOffset&) = delete;
    PeekOffset& operator=(const PeekOffset&) = delete;
    ~PeekOffset() { set(before_); }

  private:
    void set(int offset) { ::setsockopt(fd_, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset); }
    int fd_, before_;
};

// True if the message carried descriptors; these are closed again.
bool drop_descriptors(msghdr& message) {
    bool any = false;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
            int fd = -1;
            std::memcpy(&fd, reinterpret_cast<char*>(part) + at, sizeof fd);
            const Fd close_it(fd);
            any = true;
        }
    }
    return any;
}

Result<std::vector<schema::Bytes>> peek(int fd, bool stream) {
    const PeekOffset offset(fd);
    std::vector<schema::Bytes> messages;
    schema::Bytes piece(1 << 20);
    for (;;) {
        iovec part{piece.data(), piece.size()};
        alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int)) + 256];  // SCM_MAX_FD
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        const ssize_t got = ::recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EAGAIN) return messages;
        if (got < 0) return fail_errno("what is on its way can't be read");
        if (drop_descriptors(message))
            return fail_code(ExitCode::refused,
                             "is a Unix socket with descriptors on their way through it (SCM_RIGHTS)");
        if (message.msg_flags & MSG_TRUNC)
            return fail_code(ExitCode::refused, "is a Unix socket with a message of more than {} bytes",
                             piece.size());
        if (got == 0) return messages;  // the peer has gone, or a message without bytes
        if (!stream || messages.empty()) messages.emplace_back();
        messages.back().insert(messages.back().end(), piece.begin(), piece.begin() + got);
    }
}

}  // namespace

Result<> describe_unix_socket(Table& table, const Description& found, schema::Object& object) {
    const int style = option<int>(found.fd(), SO_TYPE);
    auto state = diagnose(found.status.st_ino);
    if (!state) return std::unexpected(std::move(state.error()).in("is a Unix socket"));
    if (state->state == state_listen)
        return fail_code(ExitCode::refused, "is a listening Unix socket: this can't be saved yet");
    if (state->named && state->peer == 0)
        return fail_code(ExitCode::refused, "is a bound Unix socket without a peer: this can't be saved yet");
    object.identity = identity_of(found.status);
    table.sockets[found.status.st_ino] = {object.id, state->peer};
    if (state->named)
        table.note("{} is a Unix socket with a name: getsockname(2) will not tell it", found.who());
    const bool stream = style == SOCK_STREAM;
    if ((state->shutdown & 1) == 0 || stream) {
        auto messages = peek(found.fd(), stream);
        if (!messages) return std::unexpected(std::move(messages.error()));
        object.contents = std::move(*messages);
    }
    const auto receive = option<timeval>(found.fd(), SO_RCVTIMEO),
               send = option<timeval>(found.fd(), SO_SNDTIMEO);
    object.extra = schema::pack({{"style", style},
                                 {"connected", state->peer != 0},
                                 {"shutdown", state->shutdown},
                                 {"send_buffer", option<int>(found.fd(), SO_SNDBUF)},
                                 {"receive_buffer", option<int>(found.fd(), SO_RCVBUF)},
                                 {"pass_credentials", option<int>(found.fd(), SO_PASSCRED)},
                                 {"receive_low", option<int>(found.fd(), SO_RCVLOWAT)},
                                 {"receive_timeout_us", receive.tv_sec * 1'000'000 + receive.tv_usec},
                                 {"send_timeout_us", send.tv_sec * 1'000'000 + send.tv_usec}});
    return {};
}

void finish_unix_sockets(Table& table) {
    for (const auto& [inode, socket] : table.sockets) {
        schema::Object& object = table.objects[static_cast<std::size_t>(socket.object)];
        if (socket.peer == 0) continue;
        const auto peer = table.sockets.find(socket.peer);
        if (peer != table.sockets.end()) {
            // Sockets and pipes share one number space; sockfs has a device of its own.
            const Inode pair{static_cast<dev_t>(object.identity.device), std::min(inode, socket.peer)};
            object.pipe =
                table.pipes.try_emplace(pair, static_cast<std::int64_t>(table.pipes.size())).first->second;
            continue;
        }
        object.outside = true;
        const auto found = table.descriptions.find(object.id);
        if (found != table.descriptions.end() && object.standard < 0)
            table.note(
                "{} is a Unix socket whose peer is outside the group: it will see that the peer has gone",
                found->second.who());
    }
}

}  // namespace cairn::capture
