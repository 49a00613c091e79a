// fdinfo has a line for each watch (fs/notify/fdinfo.c, since Linux 3.8), by inode. Events that wait can be
// read only by taking them away, and nobody could put them back: they stay where they are, and after a
// restart the program is told that some were lost (IN_Q_OVERFLOW), which it has to expect at any time
// (inotify(7)).
#include "resources/inotify/capture.h"

#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <cstdio>

#include "resources/inotify/capture_find_inode.h"

namespace cairn::capture {

// "fhandle-bytes:8 fhandle-type:1 f_handle:7e9e0000640d1b6d"
void read_handle(const std::string& line, WantedInode& wanted) {
    unsigned bytes = 0, type = 0;
    const auto at = line.find("fhandle-bytes:");
    if (at == std::string::npos) return;
    if (std::sscanf(line.c_str() + at, "fhandle-bytes:%x fhandle-type:%x", &bytes, &type) != 2) return;
    const auto digits = line.find("f_handle:", at);
    if (digits == std::string::npos || line.size() < digits + 9 + std::size_t{2} * bytes) return;
    wanted.handle_type = static_cast<std::int32_t>(type);
    for (unsigned i = 0; i < bytes; ++i) {
        const std::string byte = line.substr(digits + 9 + std::size_t{2} * i, 2);
        wanted.handle.push_back(static_cast<std::uint8_t>(std::strtoul(byte.c_str(), nullptr, 16)));
    }
}

// A superblock's device as fdinfo shows it.
dev_t superblock_device(unsigned kernels) {
    return ::makedev(kernels >> 20, kernels & 0xfffff);  // MAJOR, MINOR of linux/kdev_t.h
}

Result<> describe_inotify(Table& table, const Description& found, schema::Object& object) {
    int waiting = 0;
    const bool unread = ::ioctl(found.fd(), FIONREAD, &waiting) == 0 && waiting > 0;
    if (unread && table.options.may_wait_briefly) {
        auto soon = fail_code(ExitCode::refused, "is an inotify with events that are about to be read");
        soon.error().passing = true;
        return soon;
    }
    if (unread)
        table.note(
            "{} is an inotify with {} bytes of events that the program has not read: after a restart it is "
            "told "
            "that events were lost (IN_Q_OVERFLOW)",
            found.who(), waiting);
    Watcher watcher;
    watcher.object = object.id;
    watcher.who = found.who();
    std::size_t at = 0;
    while ((at = found.info.find("inotify wd:", at)) != std::string::npos) {
        const std::string line = found.info.substr(at, found.info.find('\n', at) - at);
        at += line.size();
        unsigned wd = 0, device = 0, mask = 0;
        unsigned long inode = 0;
        if (std::sscanf(line.c_str(), "inotify wd:%x ino:%lx sdev:%x mask:%x", &wd, &inode, &device, &mask) !=
            4)
            return fail("has a watch that can't be understood: {}", line);
        Watch watch;
        watch.number = static_cast<std::int32_t>(wd);
        watch.mask = mask & (IN_ALL_EVENTS | IN_EXCL_UNLINK | IN_ONESHOT);
        watch.wanted.device = superblock_device(device);
        watch.wanted.inode = inode;
        read_handle(line, watch.wanted);
        watcher.watches.push_back(std::move(watch));
    }
    auto cwd = read_link(proc_folder(found.holder) + "cwd");
    if (cwd) watcher.folders.push_back(std::move(*cwd));
    object.what =
        schema::Inotify{{}, unread ? std::optional(static_cast<std::uint32_t>(waiting)) : std::nullopt};
    table.of<WatchersFound>().all.push_back(std::move(watcher));
    return {};
}

// A file that somebody has open, has mapped or executes is known already; one without a name is known in no
// other way.
Result<> capture_watches(Table& table) {
    for (Watcher& watcher : table.of<WatchersFound>().all) {
        for (Watch& watch : watcher.watches) {
            if (!watch.place.empty()) continue;
            for (const schema::Object& object : table.objects) {
                if (!object.is<schema::File>() || object.identity.inode != watch.wanted.inode) continue;
                if (object.identity.device != watch.wanted.device) continue;
                if (object.deleted)
                    watch.object = object.id;
                else
                    watch.wanted.path = object.path;
            }
        }
    }
    return {};
}

namespace {

// What a restart finds the watched file by: its path, or the object of a file without a name.
struct WatchedPlace {
    std::optional<std::string> path;
    std::optional<std::int64_t> object;
};
void add_watch(schema::Object& object, const Watch& watch, WatchedPlace place) {
    if (auto* marks = object.get<schema::Fanotify>())
        marks->watches.push_back(
            {watch.of, watch.mark_flags, watch.mask, watch.ignored, std::move(place.path), place.object});
    else if (auto* watches = object.get<schema::Inotify>())
        watches->watches.push_back({watch.number, watch.mask, std::move(place.path), place.object});
}

}  // namespace

Result<> finish_watches(Table& table) {
    for (const Watcher& watcher : table.of<WatchersFound>().all) {
        schema::Object& object = table.objects[static_cast<std::size_t>(watcher.object)];
        std::vector<WantedInode> wanted;
        for (const Watch& watch : watcher.watches)
            if (watch.object < 0 && watch.place.empty()) wanted.push_back(watch.wanted);
        find_paths(wanted, watcher.folders);
        auto next = wanted.begin();
        for (const Watch& watch : watcher.watches) {
            if (!watch.place.empty()) {
                add_watch(object, watch, {watch.place, {}});
                continue;
            }
            if (watch.object >= 0) {
                add_watch(object, watch, {{}, watch.object});
                continue;
            }
            const WantedInode& found = *next++;
            if (found.gone) {
                table.note("{}: what it watches as {} has been removed meanwhile: left out", watcher.who,
                           watch.number);
                continue;
            }
            if (found.path.empty())
                return fail_code(ExitCode::refused,
                                 "{}: watch {} is of inode {} on device {}:{}, and no path to it can "
                                 "be found (as root, any can)",
                                 watcher.who, watch.number, found.inode, major(found.device),
                                 minor(found.device));
            add_watch(object, watch, {found.path, {}});
        }
    }
    return {};
}

}  // namespace cairn::capture
