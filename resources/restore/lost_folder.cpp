#include "resources/restore/lost_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "common/launchers_folder.h"
#include "common/open_exactly.h"

namespace cairn::restart {

Fd folder_of_lost(Opening& opening, const std::string& path, mode_t mode) {
    constexpr int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    const auto slash = path.rfind('/');
    Fd there = open_exactly(AT_FDCWD, path.substr(0, slash + 1), flags);
    if (there || errno != ENOENT || slash == 0) return there;
    const auto folder = path.substr(0, slash);
    const auto above = folder.rfind('/');
    const bool deep = !launchers_folder(folder).empty();
    const Fd parent = deep ? folder_of_lost(opening, folder, mode)
                           : open_exactly(AT_FDCWD, folder.substr(0, above + 1), flags);
    const std::string last = folder.substr(above + 1);
    const bool launchers = !launchers_folder(path).empty();
    if (!parent || ::mkdirat(parent.get(), last.c_str(), launchers ? 0700 : mode) != 0) return {};
    there = open_exactly(parent.get(), last, flags);
    if (there) opening.note("{} is gone: made again", folder);
    return there;
}

}  // namespace cairn::restart
