#include "restart/stacks.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace cairn::restart {

std::optional<ptrace::Registers> registers_of(const schema::Thread& thread) {
    ptrace::Registers registers = {};
    if (thread.leader_dead || thread.registers.size() != sizeof registers) return {};
    std::memcpy(&registers, thread.registers.data(), sizeof registers);
    return registers;
}

Result<bool> on_stack(const schema::Process& process, const schema::Thread& thread, PageReader& pages,
                      const LookAtStack& look) {
    const auto registers = registers_of(thread);
    if (!registers) return false;
    const ProgramAddress from(registers->rsp);
    const auto stack = std::ranges::find_if(process.areas, [&](const auto& area) {
        return ProgramRange{area.start, area.end}.has(from);
    });
    if (stack == process.areas.end()) return false;
    for (const auto& run : stack->pages) {
        if (run.at + run.length <= from) continue;
        schema::Bytes bytes(run.length);
        CHECK_OK(pages.read(run.offset, bytes));
        const std::size_t first = from > run.at ? from - run.at : 0;
        if (look(std::as_bytes(std::span(bytes)), first)) return true;
    }
    return false;
}

}  // namespace cairn::restart
