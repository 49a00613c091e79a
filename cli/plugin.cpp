#include "cli/plugin.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace cairn::cli {
namespace {

std::string problem_of(const std::string& path) {
    if (path.find_first_of(" :") != std::string::npos)
        return path + ": its path may have no space and no colon in it (LD_PRELOAD's separators)";
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return path + ": " + std::strerror(errno);
    Elf64_Ehdr header{};
    const ssize_t got = ::read(fd, &header, sizeof header);
    ::close(fd);
    const bool fits =
        got == static_cast<ssize_t>(sizeof header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
        header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_X86_64 && header.e_type == ET_DYN;
    return fits ? "" : path + ": is no shared library for x86-64";
}

}  // namespace

std::string preload_plugins(const std::string& library, const std::vector<std::string>& plugins) {
    if (plugins.empty()) return "";
    const std::string part = library.substr(0, library.rfind('/') + 1) + "libcairn-part.so";
    std::string preload;
    // libcairn-part.so itself, so that a plugin which is linked with it needs no path to it.
    std::vector<std::string> all{part};
    all.insert(all.end(), plugins.begin(), plugins.end());
    for (const std::string& path : all) {
        if (const std::string problem = problem_of(path); !problem.empty()) return problem;
        preload += (preload.empty() ? "" : ":") + path;
    }
    if (const char* before = std::getenv("LD_PRELOAD"); before != nullptr && *before != '\0')
        preload += std::string(":") + before;
    return ::setenv("LD_PRELOAD", preload.c_str(), 1) == 0 ? "" : std::string(std::strerror(errno));
}

}  // namespace cairn::cli
