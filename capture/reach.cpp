#include "capture/reach.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "common/fd.h"
#include "common/proc.h"
#include "common/region.h"

namespace cairn::capture {
namespace {

// "": it has none.
std::string variable_of(std::string_view environment, std::string_view name) {
    while (!environment.empty()) {
        const auto entry = environment.substr(0, environment.find('\0'));
        if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
            return std::string(entry.substr(name.size() + 1));
        environment.remove_prefix(std::min(entry.size() + 1, environment.size()));
    }
    return "";
}

// From the root folder `root`, links included. Who may not look there is taken to see it.
bool is_there(const Fd& root, const std::string& path) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT;
    const Fd found(static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
    return found || (errno != ENOENT && errno != ENOTDIR);
}

bool in_our_network(pid_t living) {
    const auto its = proc::read_link(fmt::format("/proc/{}/ns/net", living));
    const auto ours = proc::read_link("/proc/self/ns/net");
    return !its || !ours || *its == *ours;
}

}  // namespace

bool preloads_library(const std::string& environment) {
    return variable_of(environment, "LD_PRELOAD").find("/libcairn.so") != std::string::npos;
}

bool has_done_without(pid_t living, const std::string& environment) {
    if (!variable_of(environment, "LD_AUDIT").empty()) return false;
    const auto does_without = [&] {
        const auto maps = proc::read_file(fmt::format("/proc/{}/maps", living));
        return maps && maps->find("/libcairn.so") == std::string::npos &&
               (maps->find("/libc.so.6\n") != std::string::npos ||
                maps->find("/libc-2.") != std::string::npos);
    };
    // Twice: while a list is read that is longer than a page, the loader may map both, one of them behind us.
    return does_without() && does_without();
}

bool can_join(pid_t living, const std::string& environment) {
    const auto library = variable_of(environment, env_library), region = variable_of(environment, env_region);
    const Fd root(::open(fmt::format("/proc/{}/root", living).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root || library.empty() || region.empty()) return true;
    return is_there(root, library) && (is_there(root, region) || in_our_network(living));
}

}  // namespace cairn::capture
