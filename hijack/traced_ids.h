// Ids in what ptrace(2) tells of a thread that is traced, and is told: of the newcomer that it has just
// brought into the world, of who has sent it a signal.
#pragma once

#include <signal.h>
#include <sys/ptrace.h>

#include <cerrno>
#include <cstdint>

#include "hijack/let_go.h"
#include "hijack/siginfo.h"
#include "hijack/trace_notes.h"

namespace cairn::hijack {

// What PTRACE_GETEVENTMSG tells in the stop that a siginfo_t is of.
enum class EventMessage { no_id, newcomer, former };
[[nodiscard]] EventMessage message_told_in(const siginfo_t& stop);

// As the program knows it. A newcomer has its name from here on: its own thread, the one that has made it and
// their tracer come here in any order, and to the same name.
[[nodiscard]] unsigned long virtual_message(EventMessage kind, unsigned long message);

// A copy of the siginfo_t at `program`, with its sender as the kernel calls it. False: it can't be read.
[[nodiscard]] bool copy_with_real_sender(const void* program, siginfo_t& copy);

// PTRACE_SEIZE or PTRACE_ATTACH: waits until the thread isn't a tool's any more. Refused is who may not, or
// comes after another.
template <class Make>
long begin_tracing(std::int32_t thread, Make make) {
    constexpr int longest = 2000;  // turns, of a millisecond
    const int kept = errno;
    bool was_free = false;
    for (int turns = 0;; ++turns) {
        const long answer = make();
        if (answer != -1 || errno != EPERM || turns == longest || was_free) return answer;
        const HeldBy holder = who_holds(real_id(thread));
        if (holder == HeldBy::another) return answer;
        was_free = holder == HeldBy::nobody;  // let go of meanwhile, or never held
        if (!was_free) wait_for_a_moment();
        errno = kept;
    }
}

// ptrace(2), of the thread that the program knows as `thread`. `call` makes a request of the kernel:
// (request, thread, address, data) -> the answer. A wrong address is EFAULT, as ever.
template <class Call>
long trace(long request, std::int32_t thread, void* address, void* data, Call call) {
    note_tracing(request, thread, reinterpret_cast<std::uintptr_t>(data));
    const auto make = [&](long what, void* at, void* with) { return call(what, real_id(thread), at, with); };
    if (request == PTRACE_SEIZE || request == PTRACE_ATTACH)
        return begin_tracing(thread, [&] { return make(request, address, data); });
    if (!ids_are_virtual() && request != PTRACE_DETACH) return make(request, address, data);
    switch (request) {
        case PTRACE_GETEVENTMSG: {
            siginfo_t stop = {};
            // First: no other event can come between the two, and no restart behind them.
            const bool known = make(PTRACE_GETSIGINFO, nullptr, static_cast<void*>(&stop)) == 0;
            const long answer = make(request, address, data);
            if (known && answer == 0) {
                auto& message = *static_cast<unsigned long*>(data);
                message = virtual_message(message_told_in(stop), message);
            }
            return answer;
        }
        case PTRACE_GETSIGINFO: {
            const long answer = make(request, address, data);
            if (answer == 0) translate_sender(static_cast<siginfo_t*>(data));
            return answer;
        }
        case PTRACE_PEEKSIGINFO: {
            const long answer = make(request, address, data);
            for (long i = 0; i < answer; ++i) translate_sender(static_cast<siginfo_t*>(data) + i);
            return answer;
        }
        case PTRACE_DETACH: {
            const long answer = make(request, address, data);
            if (answer == 0) forget_tracing(thread);
            return answer;
        }
        case PTRACE_SETSIGINFO: {
            siginfo_t real = {};
            if (!copy_with_real_sender(data, real)) return make(request, address, data);
            return make(request, address, static_cast<void*>(&real));
        }
        default:
            return make(request, address, data);
    }
}

}  // namespace cairn::hijack
