#include "hijack/traced_ids.h"

#include <sys/uio.h>

#include "hijack/raw.h"

namespace cairn::hijack {

// ptrace_notify() in kernel/signal.c puts the event above SIGTRAP.
EventMessage message_told_in(const siginfo_t& stop) {
    if (stop.si_signo != SIGTRAP || (stop.si_code & 0xff) != SIGTRAP) return EventMessage::no_id;
    switch (stop.si_code >> 8) {
        case PTRACE_EVENT_FORK:
        case PTRACE_EVENT_VFORK:
        case PTRACE_EVENT_CLONE:
            return EventMessage::newcomer;
        case PTRACE_EVENT_VFORK_DONE:
        case PTRACE_EVENT_EXEC:
            return EventMessage::former;
        default:  // an exit status, a filter's number
            return EventMessage::no_id;
    }
}

unsigned long virtual_message(EventMessage kind, unsigned long message) {
    const KernelId told(static_cast<std::int32_t>(message));
    if (kind == EventMessage::no_id || !told.known()) return message;
    const ProgramId name =
        kind == EventMessage::newcomer ? name_newcomer(region()->ids, told) : program_id(region()->ids, told);
    return static_cast<unsigned long>(name.number());
}

bool copy_with_real_sender(const void* program, siginfo_t& copy) {
    const iovec here = {&copy, sizeof copy}, there = {const_cast<void*>(program), sizeof copy};
    const long got = raw::call(SYS_process_vm_readv, raw::pid().number(), &here, 1, &there, 1, 0);
    if (got != static_cast<long>(sizeof copy)) return false;
    if (names_sender(copy.si_signo, copy.si_code)) copy.si_pid = real_id(copy.si_pid);
    return true;
}

}  // namespace cairn::hijack
