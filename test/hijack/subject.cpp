// A program for the tests of the hijack library to run under it: subject COMMAND. Exits 0 if what it tries
// works, else says on stderr what doesn't.
#include "test/hijack/subject.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hijack/raw.h"

namespace subject {

cairn::Region* region() {
    static cairn::Region* mapped = [] {
        const char* path = getenv(cairn::env_region);
        const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
        void* at = mmap(nullptr, sizeof(cairn::Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0) close(fd);
        return at == MAP_FAILED ? nullptr : static_cast<cairn::Region*>(at);
    }();
    return mapped;
}

bool is_member() {
    if (region() == nullptr) return false;
    const std::int32_t slot = cairn::find_slot(*region(), cairn::hijack::raw::pid());
    return slot != cairn::no_slot && region()->slots[slot].state.load() == cairn::SlotState::running;
}

void expect(bool true_here, const char* text, const char* file, int line) {
    if (true_here) return;
    std::fprintf(stderr, "%s:%d: not so: %s (errno %d: %s)\n", file, line, text, errno, std::strerror(errno));
    std::_Exit(1);
}

}  // namespace subject

int main(int argc, char** argv) {
    for (int i = 0; argc >= 2 && i < subject::command_count; ++i)
        if (std::strcmp(argv[1], subject::commands[i].name) == 0)
            return subject::commands[i].run(argc - 2, argv + 2);
    std::fprintf(stderr, "subject: no such command\n");
    return 2;
}
