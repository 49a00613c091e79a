// The registers of a stopped thread as the agent puts them back (common/agent.h).
#pragma once

#include "common/agent.h"
#include "common/ptrace/thread.h"

namespace cairn::capture {

[[nodiscard]] inline AgentFrame agent_frame(const ptrace::Registers& registers, std::uint64_t mask) {
    return {.rax = registers.rax,
            .rbx = registers.rbx,
            .rcx = registers.rcx,
            .rdx = registers.rdx,
            .rsi = registers.rsi,
            .rdi = registers.rdi,
            .rbp = registers.rbp,
            .r8 = registers.r8,
            .r9 = registers.r9,
            .r10 = registers.r10,
            .r11 = registers.r11,
            .r12 = registers.r12,
            .r13 = registers.r13,
            .r14 = registers.r14,
            .r15 = registers.r15,
            .rsp = registers.rsp,
            .rip = registers.rip,
            .eflags = registers.eflags,
            .mask = mask};
}

}  // namespace cairn::capture
