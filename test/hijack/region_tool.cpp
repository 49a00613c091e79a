// Makes and shows a region without a coordinator: region_tool create PATH | list PATH
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "common/region_ops.h"

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const bool create = std::strcmp(argv[1], "create") == 0;
    const int fd = open(argv[2], create ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || (create && ftruncate(fd, sizeof(cairn::Region)) != 0)) return 1;
    void* at = mmap(nullptr, sizeof(cairn::Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return 1;
    auto& region = *static_cast<cairn::Region*>(at);
    if (create) {
        region.version = cairn::region_version;
        region.magic = cairn::region_magic;
        return 0;
    }
    const char* const states[] = {"free", "birth", "running", "exec"};
    for (std::uint32_t i = 0; i < region.slots_end.load(); ++i) {
        const cairn::Slot& slot = region.slots[i];
        if (slot.state.load() == cairn::SlotState::free) continue;
        std::printf("%u %s pid=%d parent=%d image=%u virtual=%d flags=%u %s\n", i,
                    states[static_cast<unsigned>(slot.state.load())], slot.pid.load(), slot.parent_pid.load(),
                    slot.image.load(), slot.virtual_pid.load(), slot.flags.load(), slot.foreign);
    }
    std::printf("changes %u overflow %u\n", region.changes.load(), region.overflow.load());
}
