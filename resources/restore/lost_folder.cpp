#include "resources/restore/lost_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "common/open_exactly.h"

namespace cairn::restart {

Fd folder_of_lost(Opening& opening, const std::string& path, mode_t mode) {
    constexpr int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    const auto slash = path.rfind('/');
    Fd there = open_exactly(AT_FDCWD, path.substr(0, slash + 1), flags);
    if (there || errno != ENOENT || slash == 0) return there;
    const auto above = path.rfind('/', slash - 1);
    const Fd parent = open_exactly(AT_FDCWD, path.substr(0, above + 1), flags);
    const std::string last = path.substr(above + 1, slash - above - 1);
    if (!parent || ::mkdirat(parent.get(), last.c_str(), mode) != 0) return {};
    there = open_exactly(parent.get(), last, flags);
    if (there) opening.note("{} is gone: made again", path.substr(0, slash));
    return there;
}

}  // namespace cairn::restart
