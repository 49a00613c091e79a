#include "restart/archive.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/fd.h"
#include "common/layout.h"

namespace cairn::restart {
namespace {

std::string all_of(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR);)
        if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    return text;
}

}  // namespace

Result<std::string> unpacked(const std::string& path) {
    std::error_code problem;
    if (!std::filesystem::is_regular_file(path, problem)) return path;
    const std::string program = own_program("cairn-generations");
    if (program.empty())
        return fail("{} is a file, and cairn-generations, which unpacks it, isn't installed", path);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
    const Fd from(ends[0]);
    Fd to(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return fail_errno("starting cairn import");
    if (child == 0) {
        ::dup2(to.get(), STDOUT_FILENO);
        ::execl(program.c_str(), "cairn", "import", "--json", "--", path.c_str(), nullptr);
        ::_exit(127);
    }
    to.reset();
    const auto said = nlohmann::json::parse(all_of(from.get()), nullptr, false);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const bool done =
        WIFEXITED(status) && WEXITSTATUS(status) == 0 && said.is_object() && said.contains("folder");
    if (done) return said["folder"].get<std::string>();
    const auto code = WIFEXITED(status) && WEXITSTATUS(status) < 7
                          ? static_cast<ExitCode>(WEXITSTATUS(status))
                          : ExitCode::failed;
    return fail_code(
        code, "{} is no checkpoint's folder, and can't be unpacked as what `cairn export` writes", path);
}

}  // namespace cairn::restart
