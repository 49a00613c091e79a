#include "hijack/trace_notes.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

#include "common/agent.h"
#include "hijack/ids.h"
#include "hijack/next.h"

extern "C" [[gnu::visibility("hidden")]] cairn::Door cairn_door;

namespace cairn::hijack {
namespace {

TraceNote* find_note(std::int32_t tid) {
    const std::uint32_t used =
        cairn_door.note_count < max_trace_notes ? cairn_door.note_count : max_trace_notes;
    for (std::uint32_t i = 0; i < used; ++i)
        if (cairn_door.trace_notes[i].tid == tid) return &cairn_door.trace_notes[i];
    return nullptr;
}

TraceNote* note_for(std::int32_t tid) {
    if (tid <= 0) return nullptr;
    if (TraceNote* known = find_note(tid)) return known;
    TraceNote* free = find_note(0);
    if (free == nullptr) {
        if (cairn_door.note_count > max_trace_notes) return nullptr;
        const std::uint32_t index = cairn_door.note_count++;
        if (index >= max_trace_notes) return nullptr;
        free = &cairn_door.trace_notes[index];
    }
    *free = {};
    free->tid = tid;
    return free;
}

}  // namespace

void note_tracing(long request, std::int32_t tid, std::uint64_t data) {
    switch (request) {
        case PTRACE_SEIZE:
        case PTRACE_ATTACH:
        case PTRACE_SETOPTIONS:
        case PTRACE_CONT:
        case PTRACE_SYSCALL:
        case PTRACE_SINGLESTEP:
        case PTRACE_SYSEMU:
        case PTRACE_SYSEMU_SINGLESTEP:
        case PTRACE_SINGLEBLOCK:
        case PTRACE_INTERRUPT:
            break;
        default:
            return;
    }
    TraceNote* note = note_for(tid);
    if (note == nullptr) return;
    if (request == PTRACE_INTERRUPT) {
        note->asked = 1;
        return;
    }
    note->asked = request == PTRACE_SETOPTIONS ? note->asked : 0;
    if (request == PTRACE_SEIZE || request == PTRACE_ATTACH) {
        *note = {};
        note->tid = tid;
        note->how = static_cast<std::uint32_t>(request);
    }
    if (request == PTRACE_SEIZE || request == PTRACE_SETOPTIONS) {
        note->options = static_cast<std::uint32_t>(data);
        note->has_options = 1;
    } else if (request != PTRACE_ATTACH) {
        note->resume = static_cast<std::uint32_t>(request);
    }
}

void forget_tracing(std::int32_t tid) {
    if (cairn_door.note_count == 0 || tid <= 0) return;
    if (TraceNote* note = find_note(tid)) note->tid = 0;
}

namespace {

void note_told_of_stop(std::int32_t tid) {
    if (cairn_door.note_count == 0 || tid <= 0) return;
    if (TraceNote* note = find_note(tid)) note->asked = 0;
}

}  // namespace

std::int32_t told(std::int32_t kernel_id, const int* status) {
    const std::int32_t id = virtual_id(kernel_id);
    if (id > 0 && status != nullptr && WIFSTOPPED(*status)) note_told_of_stop(id);
    if (id > 0 && status != nullptr && (WIFEXITED(*status) || WIFSIGNALED(*status))) forget_tracing(id);
    return id;
}

void told(siginfo_t* info, int options) {
    if (info == nullptr) return;
    info->si_pid = virtual_id(info->si_pid);
    const bool has_ended =
        info->si_code == CLD_EXITED || info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED;
    const bool has_stopped = info->si_code == CLD_TRAPPED || info->si_code == CLD_STOPPED;
    if ((options & WNOWAIT) != 0) return;
    if (has_ended) forget_tracing(info->si_pid);
    if (has_stopped) note_told_of_stop(info->si_pid);
}

}  // namespace cairn::hijack
