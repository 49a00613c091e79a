// fanotify(7): the group is made with the others, marks are put last of all.
#include <fcntl.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include <ranges>

#include "resources/fanotify/restore_overflow.h"
#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

// linux/fanotify.h of 6.0; older headers don't know it.
constexpr unsigned mark_ignore = 0x400, mark_evictable = 0x200;

Result<> add_mark(int fd, const schema::FanotifyMark& mark, const std::string& path) {
    const auto put = [&](unsigned more, std::uint64_t mask) -> Result<> {
        if (mask == 0) return {};
        if (::fanotify_mark(fd, FAN_MARK_ADD | mark.of | (mark.flags & mark_evictable) | more, mask, AT_FDCWD,
                            path.c_str()) != 0)
            return fail_errno("fanotify: {} can't be marked", path);
        return {};
    };
    CHECK_OK(put(0, mark.mask));
    const unsigned survives = mark.flags & FAN_MARK_IGNORED_SURV_MODIFY;
    return put(((mark.flags & mark_ignore) != 0 ? mark_ignore : FAN_MARK_IGNORED_MASK) | survives,
               mark.ignored);
}

}  // namespace

Result<Fd> open_fanotify(Opening&, const schema::Object&, const schema::Fanotify& saved) {
    Fd fd(::fanotify_init(saved.flags | FAN_CLOEXEC | FAN_NONBLOCK, saved.event_flags));
    if (!fd) return fail_errno("fanotify (as root, or with CAP_SYS_ADMIN, it is allowed)");
    return fd;
}

Result<> mark_files(const schema::Object& object, int fd, const ObjectSetOptions& options,
                    const FindObject& find) {
    const auto& saved = *object.get<schema::Fanotify>();
    // The kernel tells the newest first.
    for (const schema::FanotifyMark& mark : saved.watches | std::views::reverse) {
        if (!mark.path) {
            CHECK_OK(add_mark(fd, mark, fd_path(find(mark.object.value_or(-1)))));
            continue;
        }
        const auto mapped = mapped_path(*mark.path, options);
        auto found = options.access.find(object, mapped);
        if (!found) return std::unexpected(std::move(found.error()).in("fanotify"));
        CHECK_OK(options.access.may_read(object, mapped, *found));
        if (auto done = add_mark(fd, mark, fd_path(found->place.get())); !done)
            return std::unexpected(std::move(done.error()).in(mapped));
    }
    if (!saved.unread) return {};
    const int flags = ::fcntl(fd, F_GETFL);
    ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    auto told = tell_of_lost_events_by_fanotify(fd);
    ::fcntl(fd, F_SETFL, flags);
    if (!told) return std::unexpected(std::move(told.error()).in("fanotify"));
    return {};
}

}  // namespace cairn::restart
