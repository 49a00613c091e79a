#include "coordinator/ended_sessions.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

#include "common/fd.h"
#include "coordinator/folders.h"

namespace cairn::coordinator {
namespace {

// What may lie in the folder of a session that is over (common/session.h). The lock comes last.
constexpr std::array<std::string_view, 5> leftovers{"coordinator.log", "coordinator.log.old",
                                                    "state.json.new", "pages", "lock"};

bool is_over(const std::string& folder, std::chrono::seconds age) {
    bool has_lock = false;
    for (const std::string& name : names_in(folder)) {
        if (std::ranges::find(leftovers, name) == leftovers.end()) return false;
        has_lock = has_lock || name == "lock";
        struct stat status {};
        if (::lstat((folder + "/" + name).c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
        if (status.st_mtime > ::time(nullptr) - age.count()) return false;
    }
    return has_lock;
}

// A page server of a restart holds `pages` as long as memory is still coming from the image.
bool pages_in_use(const std::string& folder) {
    const Fd pages(::open((folder + "/pages").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    return pages && ::flock(pages.get(), LOCK_EX | LOCK_NB) != 0;
}

bool remove_session(const std::string& folder, std::chrono::seconds age) {
    struct stat status {};
    if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid())
        return false;
    if (!is_over(folder, age)) return false;
    // A coordinator that is being started makes the rest once it has the lock: as long as it is ours, there
    // is none. One that waits for it sees that the file it has locked has no name any more, and makes the
    // folder anew (lock_session()).
    const Fd lock(::open((folder + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return false;
    if (!is_over(folder, age) || pages_in_use(folder)) return false;
    for (const std::string_view name : leftovers) ::unlink((folder + "/" + std::string(name)).c_str());
    return ::rmdir(folder.c_str()) == 0;
}

}  // namespace

std::vector<std::string> remove_ended_sessions(const Session& own, std::chrono::seconds age) {
    std::vector<std::string> gone;
    for (const std::string& name : known_sessions())
        if (name != own.name && remove_session(run_directory() + "/" + name, age)) gone.push_back(name);
    return gone;
}

}  // namespace cairn::coordinator
