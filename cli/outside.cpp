#include "cli/outside.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/exit_code.h"
#include "cli/say.h"
#include "common/outside_mark.h"
#include "common/preload.h"

namespace cairn::cli {

// This command, executed by a program of the session, has given back its slot (hijack/exec.cpp). What says to
// a checkpoint that the child of a member isn't one is the mark, which the program's children inherit.
int outside(int argc, char** argv) {
    int first = 1;
    if (argc > 1 && std::strcmp(argv[1], "--") == 0) first = 2;
    if (argc <= first || (first == 1 && argv[1][0] == '-')) {
        complain("outside: which program?\nusage: cairn outside [--] PROGRAM [ARGUMENT...]");
        return exit_usage;
    }
    forget_preload();
    if (::setenv(env_outside, "1", 1) != 0) {
        complain("outside: no memory for the environment");
        return exit_failed;
    }
    ::execvp(argv[first], argv + first);
    const int error = errno;
    complain(std::string(argv[first]) + ": " + std::strerror(error));
    return error == ENOENT || error == ENOTDIR ? exit_not_found : exit_not_executable;
}

}  // namespace cairn::cli
