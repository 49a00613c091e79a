#include "common/preload.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "common/region.h"

namespace cairn {
namespace {

// LD_PRELOAD without every libcairn.so (ld.so(8): names are separated by spaces or colons). A program
// launched from inside a group, perhaps by another installation, must not get two.
std::string others(std::string_view preload) {
    std::string kept;
    while (!preload.empty()) {
        const std::size_t end = std::min(preload.find_first_of(" :"), preload.size());
        const std::string_view name = preload.substr(0, end);
        preload.remove_prefix(std::min(end + 1, preload.size()));
        if (name.empty() || name.substr(name.rfind('/') + 1) == "libcairn.so") continue;
        if (!kept.empty()) kept += ':';
        kept += name;
    }
    return kept;
}

std::string current() {
    const char* preload = std::getenv("LD_PRELOAD");
    return preload == nullptr ? std::string() : std::string(preload);
}

}  // namespace

std::string set_preload(const std::string& library, const std::string& region, bool glibc) {
    if (library.find_first_of(" :") != std::string::npos)
        return library +
               ": the path of libcairn.so may have no space and no colon in it (LD_PRELOAD's separators)";
    std::string preload = glibc ? library : std::string();
    if (const std::string rest = others(current()); !rest.empty()) preload += (glibc ? ":" : "") + rest;
    if (preload.empty())
        ::unsetenv("LD_PRELOAD");
    else if (::setenv("LD_PRELOAD", preload.c_str(), 1) != 0)
        return std::string("environment: ") + std::strerror(errno);
    if (::setenv(env_region, region.c_str(), 1) != 0 || ::setenv(env_library, library.c_str(), 1) != 0)
        return std::string("environment: ") + std::strerror(errno);
    return {};
}

void forget_preload() {
    ::unsetenv(env_region);
    ::unsetenv(env_library);
    ::unsetenv(env_gate);
    const std::string before = current();
    if (before.empty()) return;
    const std::string rest = others(before);
    if (rest.empty())
        ::unsetenv("LD_PRELOAD");
    else
        ::setenv("LD_PRELOAD", rest.c_str(), 1);
}

}  // namespace cairn
