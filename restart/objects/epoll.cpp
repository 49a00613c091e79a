#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/schema/extra.h"
#include "restart/objects/other.h"

namespace cairn::restart {

Result<Fd> open_epoll(const schema::Object&) {
    Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) return fail_errno("epoll");
    return epoll;
}

Result<> watch(const schema::Object& object, int epoll, int floor,
               const std::function<int(std::int64_t)>& fd_of) {
    auto extra = schema::unpack(object.extra);
    if (!extra) return std::unexpected(std::move(extra.error()));
    const auto targets = extra->find("targets");
    if (targets == extra->end() || !targets->is_array()) return {};
    for (const auto& target : *targets) {
        const int from = fd_of(schema::number<std::int64_t>(target, "object"));
        const int number = schema::number<int>(target, "fd");
        if (from < 0) continue;
        // The number may be closed in this process, or be something else's: it is the watched one's for the
        // moment.
        const Fd before(::fcntl(number, F_DUPFD_CLOEXEC, floor));
        if (::dup2(from, number) < 0) return fail_errno("epoll: descriptor {}", number);
        epoll_event event{};
        event.events = schema::number<std::uint32_t>(target, "events");
        event.data.u64 = schema::number<std::uint64_t>(target, "data");
        const bool added = ::epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event) == 0 || errno == EEXIST;
        const int problem = errno;
        if (before)
            ::dup2(before.get(), number);
        else
            ::close(number);
        errno = problem;
        if (!added) return fail_errno("epoll: descriptor {} can't be watched", number);
    }
    return {};
}

}  // namespace cairn::restart
