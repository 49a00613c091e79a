#include "common/layout.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>

namespace cairn {
namespace {

// "" when it can't be told.
std::string own_folder() {
    char path[PATH_MAX];
    const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
    if (size <= 0 || size == static_cast<ssize_t>(sizeof path)) return {};
    const std::string_view text(path, static_cast<std::size_t>(size));
    return std::string(text.substr(0, text.rfind('/')));
}

// `folder`/`relative`/`name` without "..", if it is there.
std::string in(const std::string& folder, std::string_view relative, std::string_view name) {
    std::string path = folder;
    for (const std::string_view part : {relative, name}) {
        path += '/';
        path += part;
    }
    char real[PATH_MAX];
    return ::realpath(path.c_str(), real) != nullptr ? std::string(real) : std::string();
}

}  // namespace

std::string own_program(std::string_view name) {
    const std::string folder = own_folder();
    if (folder.empty()) return {};
    for (const std::string_view relative : {".", CAIRN_BIN_TO_LIBEXEC, CAIRN_LIBEXEC_TO_BIN})
        if (std::string path = in(folder, relative, name); !path.empty()) return path;
    return {};
}

std::string own_library() {
    const std::string folder = own_folder();
    if (folder.empty()) return {};
    for (const std::string_view relative : {CAIRN_BIN_TO_LIB, CAIRN_LIBEXEC_TO_LIB, "../lib"})
        if (std::string path = in(folder, relative, "libcairn.so"); !path.empty()) return path;
    return {};
}

}  // namespace cairn
