// Which kind a description is of. To add a kind: a line here, and a room for it in resources/.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "resources/capture/table.h"
#include "resources/socket/capture.h"

namespace cairn::capture {
namespace {

bool is_terminal(const Description& found) {
    if (!found.is(S_IFCHR) || (found.flags & O_PATH)) return false;
    const unsigned number = major(found.status.st_rdev);
    // /dev/tty (5:0) is no terminal of its own: it is opened again by its path, in the process.
    const bool dev_tty = number == 5 && minor(found.status.st_rdev) == 0;
    return !dev_tty && ::isatty(found.fd()) == 1;
}

bool is_pty_master(const Description& found) {
    return found.is(S_IFCHR) && !(found.flags & O_PATH) && major(found.status.st_rdev) == 5 &&
           minor(found.status.st_rdev) == 2;
}

bool is_pipe(const Description& found) {
    return found.is(S_IFIFO) && !(found.flags & O_PATH);
}

// A name of the kernel for what has no file: "anon_inode:[eventpoll]", "socket:[123]".
std::string nameless(const Description& found) {
    const std::size_t colon = found.link.find(':');
    if (found.link.starts_with('/') || colon == std::string::npos) return {};
    std::string name =
        found.link.starts_with("anon_inode:") ? found.link.substr(colon + 1) : found.link.substr(0, colon);
    std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
    return name;
}

struct Nameless {
    const char* name;  // the kernel's
    Result<> (*describe)(Table&, const Description&, schema::Object&);
};
constexpr Nameless nameless_kinds[] = {
    {"eventfd", describe_eventfd},   {"eventpoll", describe_epoll}, {"timerfd", describe_timerfd},
    {"signalfd", describe_signalfd}, {"pidfd", describe_pidfd},     {"inotify", describe_inotify},
    {"fanotify", describe_fanotify},
};

// What never can be, and why.
struct Refused {
    const char* name;
    const char* why;
};
constexpr Refused refused_kinds[] = {
    {"io_uring",
     "what it has under way can't be read: launch the program with --io-uring=enosys, or tell it to do "
     "without "
     "(UV_USE_IO_URING=0 for node)"},
    {"userfaultfd", "the memory that it fills is another program's to provide"},
    {"perf_event", "what it has counted can't be set again"},
    {"bpf-map", "BPF objects belong to the system"},
    {"bpf-prog", "BPF objects belong to the system"},
    {"seccomp notify", "who is judged by it can't be connected to it again"},
};

std::string socket_name(int fd) {
    int domain = 0, style = 0;
    socklen_t length = sizeof domain;
    ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
    length = sizeof style;
    ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &style, &length);
    const bool internet = domain == AF_INET || domain == AF_INET6;
    const char* version = domain == AF_INET6 ? " (IPv6)" : "";
    if (internet && style == SOCK_STREAM) return fmt::format("TCP{} socket", version);
    if (internet && style == SOCK_DGRAM) return fmt::format("UDP{} socket", version);
    if (domain == AF_NETLINK) return "netlink socket";
    return fmt::format("socket of family {}, type {}", domain, style);
}

Result<> describe_nameless(Table& table, const Description& found, schema::Object& object,
                           const std::string& name) {
    object.kind = schema::ObjectKind::other;
    object.path = found.link;
    for (const Nameless& kind : nameless_kinds) {
        if (name == kind.name) return kind.describe(table, found, object);
    }
    const auto with_article = [](const std::string& what) {
        return fmt::format("is {} {}", std::string("aei").find(what[0]) == std::string::npos ? "a" : "an",
                           what);
    };
    for (const Refused& kind : refused_kinds)
        if (name == kind.name) return fail_code(ExitCode::refused, "{}: {}", with_article(name), kind.why);
    if (found.is(S_IFSOCK)) {
        const int domain = socket_option<int>(found.fd(), SOL_SOCKET, SO_DOMAIN);
        const int protocol = socket_option<int>(found.fd(), SOL_SOCKET, SO_PROTOCOL);
        const int style = socket_option<int>(found.fd(), SOL_SOCKET, SO_TYPE);
        const bool internet = domain == AF_INET || domain == AF_INET6;
        if (domain == AF_UNIX) return describe_unix_socket(table, found, object);
        if (internet && protocol == IPPROTO_TCP) return describe_tcp_socket(table, found, object);
        if (internet && (style == SOCK_DGRAM || style == SOCK_RAW))
            return describe_datagram_socket(table, found, object);
        if (domain == AF_NETLINK) return describe_netlink_socket(table, found, object);
        if (domain == AF_PACKET) return describe_packet_socket(table, found, object);
    }
    const std::string what = found.is(S_IFSOCK) ? socket_name(found.fd()) : name;
    return fail_code(ExitCode::refused, "{}: this can't be saved yet; close it before a checkpoint",
                     with_article(what));
}

}  // namespace

Result<> describe_object(Table& table, const Description& found, schema::Object& object) {
    if (is_pty_master(found)) return describe_pty_master(table, found, object);
    if (is_terminal(found)) return describe_terminal(table, found, object);
    if (is_pipe(found)) return describe_pipe(table, found, object);

    const bool path_only = (found.flags & O_PATH) != 0;
    if (const std::string name = nameless(found); !name.empty())
        return describe_nameless(table, found, object, name);
    if (found.link.starts_with("/secretmem"))
        return fail_code(ExitCode::refused,
                         "is a memfd_secret: the kernel lets nobody but the process read it");
    if (found.is(S_IFREG) || found.is(S_IFDIR) || found.is(S_IFCHR) || found.is(S_IFBLK) || path_only)
        return describe_file(table, found, object);
    return fail_code(ExitCode::refused, "is {}, of a kind that can't be saved", found.link);
}

}  // namespace cairn::capture
