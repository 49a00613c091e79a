#include "restart/verify.h"

#include <signal.h>
#include <unistd.h>

#include "common/image/manifest.h"
#include "common/layout.h"

namespace cairn::restart {

Result<> can_verify(const std::string& checkpoint) {
    const std::string looks = checkpoint + "/" + looks_file;
    if (::access(looks.c_str(), R_OK) == 0) return {};
    if (errno != ENOENT) return fail_errno("--verify: {}", looks);
    return fail_code(ExitCode::refused,
                     "--verify: nobody has looked at the programs before this checkpoint; `cairn checkpoint "
                     "--witness` does");
}

Result<> start_verifying(const std::string& checkpoint, const std::vector<pid_t>& programs,
                         const std::string& region) {
    std::vector<std::string> words{own_program("cairn-witness"), "--region", region, "--verify",
                                   checkpoint + "/" + looks_file};
    if (words.front().empty())
        return fail("--verify: cairn-witness isn't where cairn's programs are (scripts/build builds it)");
    for (const pid_t pid : programs) words.push_back(std::to_string(pid));
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    // No posix_spawn: where there is a time namespace for our children, the kernel refuses a child that
    // shares memory with us (copy_process() of Linux 6.1).
    const pid_t child = ::fork();
    if (child < 0) return fail_errno("--verify: cairn-witness");
    if (child > 0) return {};
    ::signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execv(arguments.front(), arguments.data());
    ::_exit(127);
}

}  // namespace cairn::restart
