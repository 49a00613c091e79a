// What hijack_test asks its subjects, programs under libcairn.so, to do.
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "test/hijack/subject.h"

namespace subject {
namespace {

int member(int, char**) {
    return is_member() ? 0 : 1;
}

// Exits 0 if the variable (argv[0]) has the value (argv[1]; without it: isn't there).
int variable_is(int argc, char** argv) {
    const char* value = argc > 0 ? std::getenv(argv[0]) : nullptr;
    if (argc < 2) return value == nullptr ? 0 : 1;
    return value != nullptr && std::strcmp(value, argv[1]) == 0 ? 0 : 1;
}

}  // namespace

const Command commands[] = {
    {"member", member},       {"variable", variable_is}, {"births", births}, {"execs", execs},
    {"bare", bare},           {"timing", timing},        {"ids", ids},       {"threads", threads},
    {"newcomers", newcomers}, {"addresses", addresses},
};
const int command_count = std::size(commands);

}  // namespace subject
