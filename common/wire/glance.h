// What `cairn-capture glance` finds of a living process: what its threads wait for, and, copied while they
// stood still for a moment, their registers and stacks. docs/capture-protocol.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/field.h"

namespace cairn::wire {

// A function of Python's (common/python/frames.h).
struct GlancedFunction {
    std::string function{}, file{};
    int line = 0;
    bool entry = false;
};
template <Struct<GlancedFunction> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(function);
    CAIRN_FIELD(file);
    CAIRN_FIELD_OR(line);
    CAIRN_FIELD_OR(entry);
}

struct GlancedThread {
    ProgramId tid{};
    KernelId real{};
    std::string name{}, state{};             // as in proc(5)
    std::string wait_channel{};              // of the kernel's functions; "" none is told
    std::int64_t call = -1;                  // the system call that it sleeps in, -1: none
    std::vector<std::uint64_t> arguments{};  // of this call
    std::string object{};                    // what the call's descriptor is, where its first argument is one
    schema::Bytes registers{};               // struct user_regs_struct; empty: it didn't stand still
    ProgramAddress stack_at{};               // where the copy begins
    schema::Bytes stack{};
    bool cut = false;  // the stack is longer than its copy
    std::vector<GlancedFunction> python{};
    bool python_cut = false;  // it has more than these
};
template <Struct<GlancedThread> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(tid);
    CAIRN_FIELD(real);
    CAIRN_FIELD(name);
    CAIRN_FIELD(state);
    CAIRN_FIELD_OR(wait_channel);
    CAIRN_FIELD_OR(call);
    CAIRN_FIELD_OR(arguments);
    CAIRN_FIELD_OR(object);
    CAIRN_FIELD_OR(registers);
    CAIRN_FIELD_OR(stack_at);
    CAIRN_FIELD_OR(stack);
    CAIRN_FIELD_OR(cut);
    CAIRN_FIELD_OR(python);
    CAIRN_FIELD_OR(python_cut);
}

struct Glance {
    static constexpr Name name{"", ""};
    KernelId pid{};
    std::string problem{};      // why it wasn't stopped, or not wholly; "": it was
    std::int64_t pause_ns = 0;  // from the first thread that stood still to the last that went on, at most
    ProgramAddress vdso_at{};
    schema::Bytes vdso{};
    std::vector<GlancedThread> threads{};
};
template <Struct<Glance> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(pid);
    CAIRN_FIELD_OR(problem);
    CAIRN_FIELD_OR(pause_ns);
    CAIRN_FIELD_OR(vdso_at);
    CAIRN_FIELD_OR(vdso);
    CAIRN_FIELD_OR(threads);
}

}  // namespace cairn::wire
