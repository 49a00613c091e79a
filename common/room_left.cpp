// Reads the limits of cgroups and what is used of them.
#include "common/room_left.h"

#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

namespace cairn {
namespace {

std::string first_line_of(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// The folder of this process's group in the file systems of cgroup v2, or of a controller of v1.
std::vector<std::string> group_folders(const std::string& controller) {
    std::ifstream file("/proc/self/cgroup");
    std::vector<std::string> folders;
    for (std::string line; std::getline(file, line);) {
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const auto names = "," + line.substr(first + 1, second - first - 1) + ",";
        std::string top;
        if (names == ",,") top = "/sys/fs/cgroup";
        if (names.find("," + controller + ",") != std::string::npos) top = "/sys/fs/cgroup/" + controller;
        if (top.empty()) continue;
        for (std::string path = line.substr(second + 1); !path.empty(); path.resize(path.rfind('/')))
            folders.push_back(path == "/" ? top : top + path);
        folders.push_back(top);
    }
    return folders;
}

}  // namespace

RoomLeft room_in_groups(const std::string& controller, const char* most_name, const char* used_name,
                        const char* old_most_name, const char* old_used_name) {
    RoomLeft room;
    for (const auto& folder : group_folders(controller))
        for (const auto& [most_file, used_file] :
             {std::pair{most_name, used_name}, std::pair{old_most_name, old_used_name}}) {
            const auto text = first_line_of(folder + "/" + most_file);
            if (text.empty() || text == "max") continue;
            const std::int64_t most = std::strtoll(text.c_str(), nullptr, 10);
            const std::int64_t left =
                most - std::strtoll(first_line_of(folder + "/" + used_file).c_str(), nullptr, 10);
            // "No limit" of v1 is the largest multiple of a page.
            if (most < no_limit - 4096 && left < room.left) room = {most, left};
        }
    return room;
}

RoomLeft memory_in_groups() {
    return room_in_groups("memory", "memory.max", "memory.current", "memory.limit_in_bytes",
                          "memory.usage_in_bytes");
}

std::int64_t available_memory() {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("MemAvailable:")) return std::strtoll(line.c_str() + 13, nullptr, 10) * 1024;
    return no_limit;
}

}  // namespace cairn
