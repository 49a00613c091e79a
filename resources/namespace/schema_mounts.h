// What /proc/PID/mountinfo says (proc(5)), for who takes a mount namespace down and who makes one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "resources/namespace/schema.h"

namespace cairn::schema {

struct MountLine {
    int id = 0, parent = 0;
    std::string device;  // "8:1"
    std::string root;    // of what is mounted: its path in its file system
    std::string point;
    std::string options;        // of the mount
    std::string type, source;   // of the file system
    std::string super_options;  // the same
    int peers = 0;              // the peer group that it is shared in ("shared:N"); 0: in none
    bool receives = false;      // it is a slave ("master:N")
    bool bindable = true;
};

// In the order of mounting on one another: what is mounted on goes first. Lines that aren't of that form are
// left out.
[[nodiscard]] std::vector<MountLine> parse_mounts(std::string_view mountinfo);

// Is it this folder, or in it?
[[nodiscard]] bool is_below(std::string_view path, std::string_view folder);
// "/a" and "/b" is "/a/b".
[[nodiscard]] std::string joined(std::string_view folder, std::string_view path);

// What can be mounted only when the processes of a pid namespace are there: its proc, and what is mounted in
// that.
[[nodiscard]] bool comes_late(const std::vector<Mount>& mounts, const Mount& mount);

}  // namespace cairn::schema
