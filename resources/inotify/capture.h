// What an inotify or a fanotify watches: the kernel tells inodes, and paths are looked for when the programs
// run again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resources/capture/table.h"
#include "resources/inotify/capture_find_inode.h"

namespace cairn::capture {

struct Watch {
    std::int32_t number = 0;
    std::uint32_t mask = 0;
    WantedInode wanted;
    std::int64_t object = -1;  // of a file without a name
    // A mark of a fanotify: FAN_MARK_MOUNT, FAN_MARK_FILESYSTEM or 0 (an inode), where it is mounted, how.
    unsigned of = 0, mark_flags = 0, ignored = 0;
    std::string place;
};

struct Watcher {
    std::int64_t object = -1;
    std::string who;
    std::vector<Watch> watches;
    std::vector<std::string> folders;  // where to look first
};

struct WatchersFound {
    std::vector<Watcher> all;
};

void read_handle(const std::string& line, WantedInode& wanted);  // of a line of fdinfo
[[nodiscard]] dev_t superblock_device(unsigned kernels);         // as fdinfo shows it

}  // namespace cairn::capture
