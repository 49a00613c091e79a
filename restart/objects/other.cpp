#include "restart/objects/other.h"

#include <fcntl.h>

namespace cairn::restart {

bool is_socket(const schema::Object& object) {
    return object.kind == schema::ObjectKind::other &&
           (object.type == "unix" || object.type == "tcp" || object.type == "datagram");
}

Result<> open_other(Opening& opening, const schema::Object& object) {
    if (object.type == "pidfd" && !object.outside) return {};  // is_late
    if (is_socket(object)) return {};
    auto opened =
        object.type == "eventfd"    ? open_eventfd(object)
        : object.type == "signalfd" ? open_signalfd(object)
        : object.type == "timerfd"  ? open_timerfd(object)
        : object.type == "epoll"    ? open_epoll(object)
        : object.type == "netlink"  ? open_netlink(opening, object)
        : object.type == "packet"   ? open_packet_socket(opening, object)
        : object.type == "inotify"  ? open_inotify()
        : object.type == "fanotify" ? open_fanotify(object)
        : object.type == "mqueue"   ? open_mqueue(opening, object)
        : object.type == "pidfd"
            ? open_dead_pidfd(object)
            : Result<Fd>(fail_code(ExitCode::damaged, "is of the kind '{}', which this cairn doesn't know",
                                   object.type));
    if (!opened) return std::unexpected(std::move(opened.error()));
    if (::fcntl(opened->get(), F_SETFL, object.flags & ~O_ASYNC) != 0) return fail_errno("F_SETFL");
    return opening.keep(object, std::move(*opened));
}

}  // namespace cairn::restart
