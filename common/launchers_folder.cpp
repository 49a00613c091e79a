#include "common/launchers_folder.h"

#include <algorithm>

namespace cairn {
namespace {

// ompi.HOST.UID; a host's name may have dots.
bool is_launchers(std::string_view name) {
    if (!name.starts_with("ompi.") && !name.starts_with("prte.")) return false;
    const auto uid = name.substr(name.rfind('.') + 1);
    return uid.size() < name.size() - std::string_view("ompi.").size() && !uid.empty() &&
           std::ranges::all_of(uid, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string_view launchers_folder(std::string_view path) {
    if (!path.starts_with('/')) return {};
    for (std::size_t begin = 1, end = 0; (end = path.find('/', begin)) != std::string_view::npos;
         begin = end + 1)
        if (is_launchers(path.substr(begin, end - begin))) return path.substr(0, end);
    return {};
}

}  // namespace cairn
