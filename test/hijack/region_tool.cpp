// A region without a coordinator:
//   region_tool create PATH
//   region_tool list PATH
//   region_tool run PATH LIBRARY PROGRAM...    runs a program as if it were restored with virtual ids, where
//   every
//                                              process born from now on has a number that somebody goes by
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "common/region_ops.h"

namespace {

cairn::Region* map(const char* path, bool create) {
    const int fd = open(path, create ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || (create && ftruncate(fd, sizeof(cairn::Region)) != 0)) return nullptr;
    void* at = mmap(nullptr, sizeof(cairn::Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? nullptr : static_cast<cairn::Region*>(at);
}

int list(const cairn::Region& region) {
    const char* const states[] = {"free", "birth", "running", "exec"};
    for (std::uint32_t i = 0; i < region.slots_end.load(); ++i) {
        const cairn::Slot& slot = region.slots[i];
        if (slot.state.load() == cairn::SlotState::free) continue;
        std::printf("%u %s pid=%d parent=%d image=%u virtual=%d flags=%u %s\n", i,
                    states[static_cast<unsigned>(slot.state.load())], slot.pid.load(), slot.parent_pid.load(),
                    slot.image.load(), cairn::program_pid(slot).number(), slot.flags.load(), slot.foreign);
    }
    std::printf("changes %u overflow %u\n", region.changes.load(), region.overflow.load());
    return 0;
}

int run(cairn::Region& region, const char* path, const char* library, char** program) {
    constexpr int far = 1'000'000, away = 3'000'000, count = 8000;
    const cairn::KernelId pid(getpid());
    const cairn::ProgramId name(pid.number() + far);
    cairn::insert_id(region.ids, name, pid);
    for (int id = pid.number() + 1; id < pid.number() + count; ++id)
        cairn::insert_id(region.ids, cairn::ProgramId(id), cairn::KernelId(away + id));
    const std::int32_t slot = cairn::claim_slot(region, cairn::KernelId(getppid()));
    cairn::name_slot(region, slot, pid);
    cairn::set_program_pid(region.slots[slot], pid, name);
    region.slots[slot].flags = cairn::slot_restored;
    region.slots[slot].state = cairn::SlotState::exec;
    setenv("LD_PRELOAD", library, 1);
    setenv(cairn::env_library, library, 1);
    setenv(cairn::env_region, path, 1);
    execvp(program[0], program);
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const std::string_view verb = argv[1];
    cairn::Region* region = map(argv[2], verb == "create");
    if (region == nullptr) return 1;
    if (verb == "create") {
        region->version = cairn::region_version;
        region->magic = cairn::region_magic;
        return 0;
    }
    if (verb == "list") return list(*region);
    return verb == "run" && argc > 4 ? run(*region, argv[2], argv[3], argv + 4) : 2;
}
