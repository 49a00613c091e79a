// What a capture does for each kind of object. To add a kind: a room in resources/, and a line here.
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "resources/capture/table.h"
#include "resources/socket/capture.h"

namespace cairn::capture {

namespace {

// A name of the kernel for what has no file: "anon_inode:[eventpoll]", "socket:[123]".
std::string nameless(const Description& found) {
    const std::size_t colon = found.link.find(':');
    if (found.link.starts_with('/') || colon == std::string::npos) return {};
    std::string name =
        found.link.starts_with("anon_inode:") ? found.link.substr(colon + 1) : found.link.substr(0, colon);
    std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
    return name;
}

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

// What tells of which kind a description is.
struct Looked {
    const Description& found;
    std::string name;                            // the kernel's, of what has no file: "eventfd"
    int domain = -1, style = -1, protocol = -1;  // of a socket

    explicit Looked(const Description& description) : found(description), name(nameless(description)) {
        if (!found.is(S_IFSOCK) || name.empty()) return;
        domain = socket_option<int>(found.fd(), SOL_SOCKET, SO_DOMAIN);
        style = socket_option<int>(found.fd(), SOL_SOCKET, SO_TYPE);
        protocol = socket_option<int>(found.fd(), SOL_SOCKET, SO_PROTOCOL);
    }
    [[nodiscard]] bool internet() const { return domain == AF_INET || domain == AF_INET6; }
    [[nodiscard]] bool is_device(unsigned number, unsigned second) const {
        return major(found.status.st_rdev) == number && minor(found.status.st_rdev) == second;
    }
    [[nodiscard]] bool opened(mode_t format) const { return found.is(format) && !(found.flags & O_PATH); }
};

bool is_unix(const Looked& it) {
    return it.domain == AF_UNIX;
}

bool is_tcp(const Looked& it) {
    return it.internet() && it.protocol == IPPROTO_TCP;
}

bool is_datagram(const Looked& it) {
    return it.internet() && (it.style == SOCK_DGRAM || it.style == SOCK_RAW);
}

bool is_netlink(const Looked& it) {
    return it.domain == AF_NETLINK;
}

bool is_packet(const Looked& it) {
    return it.domain == AF_PACKET;
}

bool is_pipe(const Looked& it) {
    return it.opened(S_IFIFO);
}

bool is_pty_master(const Looked& it) {
    return it.opened(S_IFCHR) && it.is_device(5, 2);
}

bool is_terminal(const Looked& it) {
    // /dev/tty (5:0) is no terminal of its own: it is opened again by its path, in the process.
    return it.opened(S_IFCHR) && !it.is_device(5, 0) && ::isatty(it.found.fd()) == 1;
}

// The kernel's name for it is its type: "net:[4026531840]". One that is mounted somewhere has a path, and is
// opened again by that as a file.
bool is_namespace(const Looked& it) {
    struct statfs system {};
    return !it.name.empty() && it.opened(S_IFREG) && ::fstatfs(it.found.fd(), &system) == 0 &&
           system.f_type == NSFS_MAGIC;
}

bool is_file(const Looked& it) {
    return it.name.empty() && !it.found.link.starts_with("/secretmem") &&
           (it.found.is(S_IFREG) || it.found.is(S_IFDIR) || it.found.is(S_IFCHR) || it.found.is(S_IFBLK) ||
            (it.found.flags & O_PATH) != 0);
}

// Everything that a capture does for a kind, but for its room's answers to ObjectTable: the first line whose
// name or is() fits describes the description. Then, while all stand still, the contents of all kinds are
// captured in this order: what is on its way through sockets may be anything. What takes long and needs
// nobody to stand still is finished when the programs run again.
struct Kind {
    const char* name = nullptr;  // the kernel's, of what has no file; null: is() tells
    bool (*is)(const Looked&) = nullptr;
    Describe* describe = nullptr;
    Contents* contents = nullptr;
    Contents* finish = nullptr;
};
constexpr Kind kinds[] = {
    {.is = is_unix, .describe = describe_unix_socket, .contents = capture_unix_sockets},
    {.is = is_tcp, .describe = describe_tcp_socket, .contents = capture_tcp_sockets},
    {.is = is_datagram, .describe = describe_datagram_socket},
    {.is = is_netlink, .describe = describe_netlink_socket},
    {.is = is_packet, .describe = describe_packet_socket},
    {.is = is_pipe, .describe = describe_pipe, .contents = capture_pipes},
    // A queue shows itself as a file: describe_file() knows it.
    {.describe = describe_mqueue, .contents = capture_mqueues},
    {.is = is_pty_master, .describe = describe_pty_master},
    {.is = is_terminal, .describe = describe_terminal, .contents = capture_terminals},
    {.name = "timerfd", .describe = describe_timerfd, .contents = capture_timerfds},
    {.name = "eventpoll", .describe = describe_epoll, .contents = capture_epolls},
    {.name = "eventfd", .describe = describe_eventfd},
    {.name = "signalfd", .describe = describe_signalfd},
    {.name = "pidfd", .describe = describe_pidfd, .contents = capture_pidfds},
    {.name = "inotify", .describe = describe_inotify, .contents = capture_watches, .finish = finish_watches},
    // What it watches is found with what an inotify does.
    {.name = "fanotify", .describe = describe_fanotify},
    {.is = is_namespace, .describe = describe_namespace},
    {.is = is_file, .describe = describe_file, .finish = finish_files},
};

bool fits(const Kind& kind, const Looked& it) {
    return kind.name != nullptr ? it.name == kind.name : kind.is != nullptr && kind.is(it);
}

Result<> refuse_kind(const Looked& it) {
    const auto with_article = [](const std::string& what) {
        return fmt::format("is {} {}", std::string("aei").find(what[0]) == std::string::npos ? "a" : "an",
                           what);
    };
    for (const Refused& kind : refused_kinds)
        if (it.name == kind.name)
            return fail_code(ExitCode::refused, "{}: {}", with_article(it.name), kind.why);
    if (!it.name.empty())
        return fail_code(ExitCode::refused, "{}: this can't be saved yet; close it before a checkpoint",
                         with_article(it.found.is(S_IFSOCK) ? socket_name(it.found.fd()) : it.name));
    if (it.found.link.starts_with("/secretmem"))
        return fail_code(ExitCode::refused,
                         "is a memfd_secret: the kernel lets nobody but the process read it");
    return fail_code(ExitCode::refused, "is {}, of a kind that can't be saved", it.found.link);
}

}  // namespace

Result<> describe_object(Table& table, const Description& found, schema::Object& object) {
    const Looked it(found);
    if (!it.name.empty() && !is_pipe(it)) object.path = found.link;
    for (const Kind& kind : kinds)
        if (fits(kind, it)) return kind.describe(table, found, object);
    return refuse_kind(it);
}

Result<> capture_kinds(Table& table, ImageWriter& writer) {
    for (const Kind& kind : kinds)
        if (kind.contents != nullptr) CHECK_OK(kind.contents(table));
    if (table.options.external == ExternalPolicy::refuse && !table.externals.empty())
        return fail_code(ExitCode::refused, "connected to the outside (--external=refuse):\n{}",
                         fmt::join(table.externals, "\n"));
    return capture_memory(table, writer);
}

Result<> finish_kinds(Table& table) {
    for (const Kind& kind : kinds)
        if (kind.finish != nullptr) CHECK_OK(kind.finish(table));
    return {};
}

}  // namespace cairn::capture
