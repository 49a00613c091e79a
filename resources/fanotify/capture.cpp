// fanotify groups: fdinfo has their flags and a line for each mark (fs/notify/fdinfo.c), of an inode, a mount
// or a whole file system. Events that wait can be read only by taking them away.
#include "resources/inotify/capture.h"

#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <cstdio>
#include <sstream>

#include "common/proc.h"
#include "resources/inotify/capture_find_inode.h"

namespace cairn::capture {
namespace {

// The first mount point that fits, "" for none. "36 35 98:0 /root /point ..." (proc(5), mountinfo)
template <class Fits>
std::string mount_point(Fits fits) {
    auto text = proc::read_file("/proc/self/mountinfo");
    if (!text) return {};
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        int id = 0, parent = 0;
        std::string device, root, point;
        if (fields >> id >> parent >> device >> root >> point && fits(id, device)) return point;
    }
    return {};
}

Result<Watch> read_mark(const std::string& line) {
    Watch mark;
    unsigned long inode = 0;
    unsigned device = 0, mount = 0;
    if (std::sscanf(line.c_str(), "fanotify ino:%lx sdev:%x mflags:%x mask:%x ignored_mask:%x", &inode,
                    &device, &mark.mark_flags, &mark.mask, &mark.ignored) == 5) {
        mark.wanted.device = superblock_device(device);
        mark.wanted.inode = inode;
        read_handle(line, mark.wanted);
    } else if (std::sscanf(line.c_str(), "fanotify mnt_id:%x mflags:%x mask:%x ignored_mask:%x", &mount,
                           &mark.mark_flags, &mark.mask, &mark.ignored) == 4) {
        mark.of = FAN_MARK_MOUNT;
        mark.place = mount_point([&](int id, const std::string&) { return id == static_cast<int>(mount); });
    } else if (std::sscanf(line.c_str(), "fanotify sdev:%x mflags:%x mask:%x ignored_mask:%x", &device,
                           &mark.mark_flags, &mark.mask, &mark.ignored) == 4) {
        const dev_t wanted = superblock_device(device);
        const auto name = fmt::format("{}:{}", major(wanted), minor(wanted));
        mark.of = FAN_MARK_FILESYSTEM;
        mark.place = mount_point([&](int, const std::string& each) { return each == name; });
    } else {
        return fail("has a mark that can't be understood: {}", line);
    }
    if (mark.of != 0 && mark.place.empty())
        return fail_code(ExitCode::refused, "is a fanotify with a mark on a mount that isn't there: {}",
                         line);
    return mark;
}

// Bytes, none if nothing waits.
Result<std::optional<std::uint32_t>> unread_of(Table& table, const Description& found, unsigned flags) {
    int waiting = 0;
    if (::ioctl(found.fd(), FIONREAD, &waiting) != 0 || waiting <= 0) return std::nullopt;
    if (table.options.may_wait_briefly) {
        auto soon = fail_code(ExitCode::refused, "is a fanotify with events that are about to be read");
        soon.error().passing = true;
        return std::unexpected(std::move(soon.error()));
    }
    if ((flags & FAN_UNLIMITED_QUEUE) != 0)
        return fail_code(
            ExitCode::refused,
            "is a fanotify with {} bytes of events that the program has not read, and whose queue can't "
            "overflow (FAN_UNLIMITED_QUEUE), so that a restart couldn't tell it of events that were lost: "
            "try "
            "again when it has read them",
            waiting);
    table.note(
        "{} is a fanotify with {} bytes of events that the program has not read: after a restart it is told "
        "that events were lost (FAN_Q_OVERFLOW)",
        found.who(), waiting);
    return static_cast<std::uint32_t>(waiting);
}

}  // namespace

Result<> describe_fanotify(Table& table, const Description& found, schema::Object& object) {
    unsigned flags = 0, event_flags = 0;
    const auto head = found.info.find("fanotify flags:");
    if (head == std::string::npos ||
        std::sscanf(found.info.c_str() + head, "fanotify flags:%x event-flags:%x", &flags, &event_flags) != 2)
        return fail("is a fanotify that says nothing of itself");
    if ((flags & (FAN_CLASS_CONTENT | FAN_CLASS_PRE_CONTENT)) != 0)
        return fail_code(
            ExitCode::refused,
            "is a fanotify that is asked before files are opened (FAN_CLASS_CONTENT): while it stands still "
            "so would everybody else, who saves it included");
    const auto unread = TRY(unread_of(table, found, flags));
    Watcher watcher;
    watcher.object = object.id;
    watcher.who = found.who();
    // without FANOTIFY_UNPRIV, the kernel's own
    object.what = schema::Fanotify{flags & ~(1U << 31), event_flags, {}, unread};
    std::istringstream lines(found.info);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("fanotify ") || line.starts_with("fanotify flags:")) continue;
        auto mark = TRY(read_mark(line));
        watcher.watches.push_back(std::move(mark));
    }
    auto cwd = read_link(proc_folder(found.holder) + "cwd");
    if (cwd) watcher.folders.push_back(std::move(*cwd));
    table.of<WatchersFound>().all.push_back(std::move(watcher));
    return {};
}

}  // namespace cairn::capture
