// From an inode to a path, for what the kernel knows by its inode alone: inotify and fanotify watches.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/schema/process.h"

namespace cairn::capture {

struct WantedInode {
    dev_t device = 0;  // of the superblock; some file systems (btrfs) tell stat(2) another one
    ino_t inode = 0;
    std::int32_t handle_type = 0;
    schema::Bytes handle;  // struct file_handle's f_handle; empty: none
    std::string path;      // a guess, then the answer; empty: not found
    bool gone = false;     // the handle leads to nothing: the file has been removed
};

// By the guess, where it is right; by open_by_handle_at(2) where we may (CAP_DAC_READ_SEARCH); where we may
// not, by looking through `folders` and what is below them, then through what is above them, up to some
// hundred thousand names. Takes long: not while programs stand still. (Looking through a folder is an event
// to who watches it.)
void find_paths(std::vector<WantedInode>& wanted, const std::vector<std::string>& folders);

}  // namespace cairn::capture
