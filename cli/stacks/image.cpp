// The stacks of a checkpoint's threads, out of the image's memory.
#include <cstring>

#include "cli/inspect_memory.h"
#include "cli/inspect_show.h"
#include "cli/stacks/python.h"
#include "cli/stacks/unwind.h"

namespace cairn::inspect {
namespace {

constexpr std::size_t head_size = 4096;

// Each ELF file once, by the mapping of its first page.
Result<std::vector<stacks::Module>> modules_of(const Checkpoint& checkpoint, const LoadedProcess& process,
                                               ProcessMemory& memory) {
    std::vector<stacks::Module> modules;
    for (const auto& area : process.process.areas) {
        if (area.kind == schema::AreaKind::vdso) {
            modules.push_back({.start = area.start,
                               .name = "[vdso]",
                               .bytes = TRY(memory.read(area.start, area.end - area.start))});
            continue;
        }
        if (area.kind != schema::AreaKind::file_private || area.file_offset != 0) continue;
        const auto* object = checkpoint.object(process.part, area.object);
        if (object == nullptr) continue;
        auto head = memory.read(area.start, head_size);
        if (!head || std::ranges::find(memory.unknown_files(), object->path) != memory.unknown_files().end())
            continue;
        modules.push_back(
            {.start = area.start, .name = object->path, .path = object->path, .head = std::move(*head)});
    }
    return modules;
}

}  // namespace

Result<std::vector<Stack>> stacks_of(const Checkpoint& checkpoint, const LoadedProcess& process) {
    std::vector<Stack> all;
    if (process.process.run == schema::Run::zombie) return all;
    ProcessMemory memory(checkpoint, process);
    stacks::Subject subject{.pid = process.process.pid.number()};
    subject.modules = TRY(modules_of(checkpoint, process, memory));
    subject.read = [&memory](ProgramAddress at, std::size_t length) { return memory.read(at, length); };
    if (const auto python = stacks::find_python(subject.modules)) {
        constexpr python::Most most{.functions = 10'000, .reads = 10'000'000};
        subject.python = python::threads_of(*python, most, [&](ProgramAddress at, std::span<std::byte> to) {
            const auto bytes = memory.read(at, to.size());
            if (!bytes || bytes->size() != to.size()) return false;
            std::memcpy(to.data(), bytes->data(), to.size());
            return true;
        });
    }
    for (const auto& thread : process.process.threads) {
        if (thread.leader_dead) continue;
        stacks::Registers registers{.tid = thread.tid.number()};
        std::memcpy(&registers.values, thread.registers.data(),
                    std::min(thread.registers.size(), sizeof registers.values));
        subject.threads.push_back(registers);
    }
    auto unwound = TRY(stacks::unwind(subject));
    for (auto& each : unwound) {
        const auto saved = std::ranges::find(process.process.threads, each.tid,
                                             [](const auto& thread) { return thread.tid.number(); });
        if (saved == process.process.threads.end()) continue;
        all.push_back({.tid = saved->tid,
                       .name = saved->name,
                       .doing = doing(*saved),
                       .frames = std::move(each.frames),
                       .broken = std::move(each.broken)});
    }
    return all;
}

}  // namespace cairn::inspect
