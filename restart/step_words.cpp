#include "restart/step_words.h"

#include "restart/restorer/params.h"

namespace cairn::restart {

const char* step_words(std::uint32_t step) {
    switch (step) {
        case restorer::step_unmap:
            return "unmapping";
        case restorer::step_move:
            return "moving the vdso";
        case restorer::step_map:
            return "mapping memory";
        case restorer::step_open_file:
            return "opening a file";
        case restorer::step_read:
            return "reading pages of the image";
        case restorer::step_protect:
            return "protecting memory";
        case restorer::step_advise:
            return "advising on memory";
        case restorer::step_layout:
            return "setting the memory layout (PR_SET_MM_MAP)";
        case restorer::step_signals:
            return "setting a signal's action";
        case restorer::step_thread:
            return "creating a thread";
        case restorer::step_rseq:
            return "registering rseq";
        case restorer::step_altstack:
            return "setting an alternate stack";
        case restorer::step_credentials:
            return "setting user, groups and capabilities";
        case restorer::step_root:
            return "setting root and working directory";
        case restorer::step_timers:
            return "setting timers";
        case restorer::step_descriptors:
            return "arranging descriptors";
        case restorer::step_scheduling:
            return "setting scheduling";
        case restorer::step_lazy:
            return "watching memory that is to come later (userfaultfd)";
        case restorer::step_pending:
            return "queueing pending signals";
        case restorer::step_lock_memory:
            return "locking memory (mlock; `ulimit -l`?)";
        case restorer::step_locks:
            return "taking the lock or lease of a descriptor";
        case restorer::step_attach:
            return "attaching a System V segment";
        case restorer::step_undo:
            return "promising again to undo what was done to System V semaphores (SEM_UNDO)";
        case restorer::step_notify:
            return "asking for a notification (mq_notify) by the descriptor";
        default:
            return "?";
    }
}

}  // namespace cairn::restart
