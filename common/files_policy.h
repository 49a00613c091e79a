// Whether files go back with the program (`--files` and `--with` of launch and checkpoint):
// docs/decisions/0025-saved-files.md.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace cairn {

inline constexpr const char *files_save = "save", *files_leave = "leave";

[[nodiscard]] inline bool is_files_policy(std::string_view policy) {
    return policy == files_save || policy == files_leave;
}

// Folders of --with are told as one string, FOLDER:FOLDER..., as in CAIRN_WITH.
[[nodiscard]] inline bool names_folder(std::string_view folders, std::string_view folder) {
    for (std::size_t at = 0; at <= folders.size();) {
        const auto end = std::min(folders.find(':', at), folders.size());
        if (folders.substr(at, end - at) == folder) return true;
        at = end + 1;
    }
    return false;
}

// Each folder once.
[[nodiscard]] inline std::string joined_folders(std::string folders, std::string_view more) {
    for (std::size_t at = 0; at <= more.size();) {
        const auto end = std::min(more.find(':', at), more.size());
        const auto folder = more.substr(at, end - at);
        if (!folder.empty() && !names_folder(folders, folder))
            folders.append(folders.empty() ? "" : ":").append(folder);
        at = end + 1;
    }
    return folders;
}

}  // namespace cairn
