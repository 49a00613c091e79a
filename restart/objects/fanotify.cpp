#include <fcntl.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include "common/schema/extra.h"
#include "restart/objects/other.h"

namespace cairn::restart {
namespace {

// linux/fanotify.h of 6.0; older headers don't know it.
constexpr unsigned mark_ignore = 0x400, mark_evictable = 0x200;

Result<> add_mark(int fd, const nlohmann::json& mark, const std::string& path) {
    const auto of = schema::number<unsigned>(mark, "of"), flags = schema::number<unsigned>(mark, "flags");
    const auto put = [&](unsigned more, std::uint64_t mask) -> Result<> {
        if (mask == 0) return {};
        if (::fanotify_mark(fd, FAN_MARK_ADD | of | (flags & mark_evictable) | more, mask, AT_FDCWD,
                            path.c_str()) != 0)
            return fail_errno("fanotify: {} can't be marked", path);
        return {};
    };
    CHECK_OK(put(0, schema::number<std::uint32_t>(mark, "mask")));
    const unsigned survives = flags & FAN_MARK_IGNORED_SURV_MODIFY;
    return put(((flags & mark_ignore) != 0 ? mark_ignore : FAN_MARK_IGNORED_MASK) | survives,
               schema::number<std::uint32_t>(mark, "ignored"));
}

}  // namespace

Result<Fd> open_fanotify(const schema::Object& object) {
    auto extra = TRY(schema::unpack(object.extra));
    Fd fd(::fanotify_init(schema::number<unsigned>(extra, "flags") | FAN_CLOEXEC | FAN_NONBLOCK,
                          schema::number<unsigned>(extra, "event_flags")));
    if (!fd) return fail_errno("fanotify (as root, or with CAP_SYS_ADMIN, it is allowed)");
    return fd;
}

Result<> mark_files(const schema::Object& object, int fd, const ObjectSetOptions& options,
                    const std::function<int(std::int64_t)>& fd_of) {
    auto extra = TRY(schema::unpack(object.extra));
    const auto marks = extra.find("watches");
    if (marks == extra.end() || !marks->is_array()) return {};
    // The kernel tells the newest first.
    for (auto each = marks->rbegin(); each != marks->rend(); ++each) {
        const auto& mark = *each;
        const auto path = schema::text(mark, "path");
        if (path.empty()) {
            const int marked = fd_of(schema::number<std::int64_t>(mark, "object"));
            CHECK_OK(add_mark(fd, mark, fd_path(marked)));
            continue;
        }
        const auto mapped = mapped_path(path, options);
        auto found = options.access.find(object, mapped);
        if (!found) return std::unexpected(std::move(found.error()).in("fanotify"));
        CHECK_OK(options.access.may_read(object, mapped, *found));
        if (auto done = add_mark(fd, mark, fd_path(found->place.get())); !done)
            return std::unexpected(std::move(done.error()).in(mapped));
    }
    return {};
}

}  // namespace cairn::restart
