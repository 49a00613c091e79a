// Memory that the kernel may drop at any time (MAP_DROPPABLE): it isn't saved, and comes back empty, so that
// nobody draws the same random numbers from it twice. A child of fork finds it empty as before.
// ci: exact user
// narrow: none
// heirs: none
// still: exact
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "support.h"

namespace {
constexpr std::size_t size = 3 * 4096;

bool is_empty(const char* memory) {
    return std::all_of(memory, memory + size, [](char byte) { return byte == 0; });
}

void check_child(const char* memory) {
    const pid_t child = fork();
    if (child == 0) _exit(is_empty(memory) ? 5 : 1);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
}
}  // namespace

int main() {
    constexpr int map_droppable = 8;  // linux/mman.h of 6.11
    auto* memory =
        static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | map_droppable, -1, 0));
    if (memory == MAP_FAILED) test::skip("no MAP_DROPPABLE before Linux 6.11");
    std::memset(memory, 'r', size);
    test::serve([=](bool last) {
        if (last) return;  // nobody has restarted it since
        CHECK(is_empty(memory));
        std::memset(memory, 'r', size);
        check_child(memory);
    });
}
