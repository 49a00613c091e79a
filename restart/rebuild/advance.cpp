#include "restart/rebuild/advance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "common/ptrace/thread.h"
#include "restart/restorer/params.h"

namespace cairn::restart {
namespace {

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

// What the step worked on: a path, a number (of a descriptor, a signal, a thread, ...), or an address.
std::string name_of_detail(pid_t pid, std::uint32_t step, std::uint64_t detail) {
    if (step == restorer::step_open_file) {
        std::array<char, 256> path = {};
        if (ptrace::read_memory(pid, detail, std::as_writable_bytes(std::span(path)))) return path.data();
    }
    constexpr std::uint32_t numbers[] = {
        restorer::step_thread,  restorer::step_scheduling,  restorer::step_pending,
        restorer::step_signals, restorer::step_timers,      restorer::step_locks,
        restorer::step_undo,    restorer::step_descriptors, restorer::step_notify,
    };
    return std::ranges::find(numbers, step) != std::end(numbers) ? fmt::format("{}", detail)
                                                                 : fmt::format("{:#x}", detail);
}

}  // namespace

Result<> check_restorer(const Rebuilding& rebuilding) {
    struct Head {
        std::uint32_t step;
        std::int32_t number;
        std::uint64_t detail;
    };
    static_assert(offsetof(Head, step) == offsetof(restorer::Params, failed_step) &&
                  offsetof(Head, number) == offsetof(restorer::Params, failed_errno) &&
                  offsetof(Head, detail) == offsetof(restorer::Params, failed_detail));
    const auto head = ptrace::read_object<Head>(rebuilding.pid, rebuilding.placement.params);
    if (!head || head->step == restorer::step_none) return {};
    if (head->step == restorer::step_damaged)
        return fail_code(
            ExitCode::damaged,
            "image {}: pages for address {:#x} are damaged (checksum): take another generation, or a "
            "copy of this file",
            rebuilding.image_path, head->detail);
    return fail("process {} ({}): {} at {}: {}", rebuilding.process->pid, rebuilding.process->name,
                step_words(head->step), name_of_detail(rebuilding.pid, head->step, head->detail),
                std::strerror(head->number));
}

Result<bool> trapped(Rebuilding& rebuilding) {
    const pid_t pid = rebuilding.pid;
    CHECK_OK(check_restorer(rebuilding));
    if (!rebuilding.memory.lazy_areas.empty() && !rebuilding.handed_over) {
        rebuilding.handed_over = true;
        const auto there = TRY(ptrace::read_object<std::int32_t>(
            pid, rebuilding.placement.params + offsetof(restorer::Params, lazy_fault)));
        CHECK_OK(rebuilding.take_user_fault(there));
        CHECK_OK(ptrace::resume(pid, 0));
        return false;
    }
    const std::size_t expected = rebuilding.process->threads.size();
    if (++rebuilding.ready < expected) return false;
    for (std::size_t i = 0; i < expected; ++i) {
        const auto at = rebuilding.placement.threads + i * sizeof(restorer::Thread);
        auto image = TRY(ptrace::read_object<std::int32_t>(pid, at + offsetof(restorer::Thread, image_tid)));
        auto real = TRY(ptrace::read_object<std::int32_t>(pid, at + offsetof(restorer::Thread, real_tid)));
        rebuilding.thread_ids.emplace_back(image, real);
    }
    return true;
}

}  // namespace cairn::restart
