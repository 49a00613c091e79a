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

// The same the other way; the rest is as in `registers`.
[[nodiscard]] inline ptrace::Registers registers_of(const AgentFrame& frame, ptrace::Registers registers) {
    registers.rax = frame.rax, registers.rbx = frame.rbx, registers.rcx = frame.rcx,
    registers.rdx = frame.rdx;
    registers.rsi = frame.rsi, registers.rdi = frame.rdi, registers.rbp = frame.rbp;
    registers.r8 = frame.r8, registers.r9 = frame.r9, registers.r10 = frame.r10, registers.r11 = frame.r11;
    registers.r12 = frame.r12, registers.r13 = frame.r13, registers.r14 = frame.r14,
    registers.r15 = frame.r15;
    registers.rsp = frame.rsp, registers.rip = frame.rip, registers.eflags = frame.eflags;
    return registers;
}

// Of a thread that makes the call for the rest of a transfer (cairn_agent_finish in hijack/agent/agent.cpp),
// its FinishFrame; none if it doesn't. `finish`: as the Door has it. Up to the end of the call the function
// keeps the frame's address in rbx and the stack pointer where it was put.
inline constexpr std::uint64_t below_finish_frame = 64, most_before_call = 64;
[[nodiscard]] inline ProgramAddress finish_frame_of(const ptrace::Registers& registers,
                                                    std::uint64_t finish) {
    const bool inside = finish != 0 && registers.rip - finish < most_before_call &&
                        registers.rsp + below_finish_frame == registers.rbx;
    return ProgramAddress(inside ? registers.rbx : 0);
}

}  // namespace cairn::capture
