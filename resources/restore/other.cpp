#include "resources/restore/other.h"

#include <fcntl.h>

namespace cairn::restart {
namespace {

// Each kind by the schema that its objects have.
struct OpenKind {
    Opening& opening;
    const schema::Object& object;

    Result<Fd> operator()(const schema::Epoll&) const { return open_epoll(); }
    Result<Fd> operator()(const schema::Eventfd& saved) const { return open_eventfd(saved); }
    Result<Fd> operator()(const schema::Fanotify& saved) const { return open_fanotify(saved); }
    Result<Fd> operator()(const schema::Inotify&) const { return open_inotify(); }
    Result<Fd> operator()(const schema::Mqueue& saved) const { return open_mqueue(opening, object, saved); }
    Result<Fd> operator()(const schema::Pidfd&) const { return open_dead_pidfd(object); }
    Result<Fd> operator()(const schema::Signalfd& saved) const { return open_signalfd(saved); }
    Result<Fd> operator()(const schema::Timerfd& saved) const { return open_timerfd(saved); }
    Result<Fd> operator()(const schema::Netlink& saved) const { return open_netlink(opening, saved); }
    Result<Fd> operator()(const schema::Packet& saved) const { return open_packet_socket(opening, saved); }
    template <class Other>  // what no descriptor leads to
    Result<Fd> operator()(const Other&) const {
        return fail_code(ExitCode::damaged, "is of the kind '{}', which no descriptor leads to",
                         schema::kind_of(object));
    }
};

}  // namespace

bool is_socket(const schema::Object& object) {
    return object.is<schema::Tcp>() || object.is<schema::Datagram>() || object.is<schema::UnixSocket>();
}

Result<> open_other(Opening& opening, const schema::Object& object) {
    if (is_late(object) || is_socket(object)) return {};
    const Fd opened = TRY(std::visit(OpenKind{opening, object}, object.what));
    if (::fcntl(opened.get(), F_SETFL, object.flags & ~O_ASYNC) != 0) return fail_errno("F_SETFL");
    return opening.keep_copy(object, opened.get());
}

}  // namespace cairn::restart
