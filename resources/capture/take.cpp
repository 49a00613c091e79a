#include "resources/capture/take.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "common/agent.h"

namespace cairn::capture {
namespace {

Fd take(const Holder& holder, ProgramFd number) {
    if (holder.pidfd >= 0)
        return Fd(static_cast<int>(::syscall(SYS_pidfd_getfd, holder.pidfd, number.number(), 0U)));
    constexpr unsigned pidfd_thread = O_EXCL;
    const bool by_thread = holder.tid != 0 && holder.tid != holder.pid;
    const Fd pidfd(static_cast<int>(
        ::syscall(SYS_pidfd_open, by_thread ? holder.tid : holder.pid, by_thread ? pidfd_thread : 0U)));
    return Fd(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), number.number(), 0U)));
}

}  // namespace

Result<Fd> Taking::next() {
    if (left_.empty()) return fail("no descriptor is left to be taken");
    const ProgramFd number = left_.front();
    if (sent_.empty()) {
        Fd taken = take(*holder_, number);
        if (taken) {
            left_ = left_.subspan(1);
            return taken;
        }
        if ((errno != EPERM && errno != ENOSYS) || !*borrow_) return fail_errno("pidfd_getfd");
        const auto group = left_.first(std::min<std::size_t>(left_.size(), max_lent));
        sent_ = TRY((*borrow_)(*holder_, group));
        if (sent_.size() != group.size())
            return fail("{} descriptors were asked for, and {} came", group.size(), sent_.size());
        std::ranges::reverse(sent_);
    }
    left_ = left_.subspan(1);
    Fd taken = std::move(sent_.back());
    sent_.pop_back();
    return taken;
}

}  // namespace cairn::capture
