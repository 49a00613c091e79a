#include "restart/rebuild/advance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "common/inner_ids.h"
#include "common/ptrace/thread.h"
#include "restart/rebuild/page_sources.h"
#include "restart/restorer/params.h"
#include "restart/who_has.h"

namespace cairn::restart {
namespace {

struct StepWords {
    std::uint32_t step;
    const char* what;
    bool number = false;  // Params::failed_detail is one (of a descriptor, a signal, ...); else an address
};
constexpr StepWords unknown_step{restorer::step_none, "?"};
constexpr StepWords step_words[] = {
    {restorer::step_unmap, "unmapping"},
    {restorer::step_move, "moving the vdso"},
    {restorer::step_map, "mapping memory"},
    {restorer::step_open_file, "opening a file"},
    {restorer::step_read, "reading pages of the image"},
    {restorer::step_protect, "protecting memory"},
    {restorer::step_advise, "advising on memory"},
    {restorer::step_layout, "setting the memory layout (PR_SET_MM_MAP)"},
    {restorer::step_signals, "setting a signal's action", true},
    {restorer::step_thread, "creating a thread", true},
    {restorer::step_rseq, "registering rseq"},
    {restorer::step_state, "asking for a component of the processor's state (ARCH_REQ_XCOMP_PERM), number",
     true},
    {restorer::step_altstack, "setting an alternate stack"},
    {restorer::step_credentials, "setting user, groups and capabilities"},
    {restorer::step_root, "setting root and working directory"},
    {restorer::step_namespaces, "entering a namespace by descriptor", true},
    {restorer::step_pids, "choosing the pid namespace of its children by the process", true},
    {restorer::step_timers, "setting timers", true},
    {restorer::step_descriptors, "arranging descriptors", true},
    {restorer::step_scheduling, "setting scheduling", true},
    {restorer::step_time_stamps, "forbidding the time stamp counter", true},
    {restorer::step_cpuid, "forbidding CPUID", true},
    {restorer::step_seal, "sealing memory (mseal)"},
    {restorer::step_keys, "allocating protection keys, or protecting memory by one (pkeys)"},
    {restorer::step_deny, "denying that memory becomes executable (PR_SET_MDWE), with the flags", true},
    {restorer::step_lazy, "watching memory that is to come later (userfaultfd)"},
    {restorer::step_pending, "queueing pending signals", true},
    {restorer::step_lock_memory, "locking memory (mlock; `ulimit -l`?)"},
    {restorer::step_locks, "taking the lock or lease of a descriptor", true},
    {restorer::step_attach, "attaching a System V segment"},
    {restorer::step_undo, "promising again to undo what was done to System V semaphores (SEM_UNDO)", true},
    {restorer::step_ring_buffers, "registering the buffers of the io_uring (`ulimit -l`?) at descriptor",
     true},
    {restorer::step_birth, "the birth of a child that shares memory, with the id", true},
    {restorer::step_notify, "asking for a notification (mq_notify) by the descriptor", true},
};

std::string detail_words(pid_t pid, const StepWords& words, std::uint64_t detail) {
    std::array<char, 256> path = {};
    if (words.step == restorer::step_open_file &&
        ptrace::read_memory(pid, ProgramAddress(detail), std::as_writable_bytes(std::span(path))))
        return path.data();
    return words.number ? fmt::format("{}", detail) : fmt::format("{:#x}", detail);
}

// The process's own, or one that it has borrowed pages of (restorer::Unit::image).
std::string image_name(const Rebuilding& rebuilding, std::uint32_t image) {
    const auto& others = rebuilding.memory.others;
    return image == 0 || image > others.size() ? rebuilding.image_path
                                               : rebuilding.folder + "/" + others[image - 1];
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
    if (head->step == restorer::step_damaged) {
        const auto image = ptrace::read_object<std::uint32_t>(
            rebuilding.pid, rebuilding.placement.params + offsetof(restorer::Params, failed_image));
        return fail_code(
            ExitCode::damaged,
            "image {}: pages for address {:#x} are damaged (checksum): take another generation, or a "
            "copy of this file",
            image_name(rebuilding, image.value_or(0)), head->detail);
    }
    if (head->step == restorer::step_huge_pages)
        return fail_code(
            ExitCode::refused,
            "process {} ({}): huge pages for the memory at {:#x} can't be had: {} "
            "(/proc/sys/vm/nr_hugepages, "
            "and those of other sizes in /sys/kernel/mm/hugepages, say how many the machine keeps)",
            rebuilding.process->pid, rebuilding.process->name, head->detail, std::strerror(head->number));
    if (head->step == restorer::step_thread && head->number == EEXIST)
        return fail(
            "process {} ({}): one of its threads can't have its id: {}; end it, or restart with "
            "--ids=virtual",
            rebuilding.process->pid, rebuilding.process->name,
            who_has(KernelId(static_cast<std::int32_t>(head->detail))));
    const auto* found = std::ranges::find(step_words, head->step, &StepWords::step);
    const StepWords& words = found == std::end(step_words) ? unknown_step : *found;
    return fail("process {} ({}): {} at {}: {}", rebuilding.process->pid, rebuilding.process->name,
                words.what, detail_words(rebuilding.pid, words, head->detail), std::strerror(head->number));
}

Result<bool> trapped(Rebuilding& rebuilding) {
    const pid_t pid = rebuilding.pid;
    CHECK_OK(check_restorer(rebuilding));
    if (!rebuilding.memory.written_runs.empty() && !rebuilding.filled) {
        rebuilding.filled = true;
        CHECK_OK(write_pages(rebuilding));
        CHECK_OK(ptrace::resume(pid, 0));
        return false;
    }
    if (!rebuilding.memory.lazy_areas.empty() && !rebuilding.handed_over) {
        rebuilding.handed_over = true;
        const auto there = TRY(ptrace::read_object<std::int32_t>(
            pid, rebuilding.placement.params + offsetof(restorer::Params, lazy_fault)));
        CHECK_OK(rebuilding.take_user_fault(ProgramFd(there)));
        CHECK_OK(ptrace::resume(pid, 0));
        return false;
    }
    const std::size_t expected = rebuilding.process->threads.size();
    if (++rebuilding.ready < expected) return false;
    for (std::size_t i = 0; i < expected; ++i) {
        const auto at = rebuilding.placement.threads + i * sizeof(restorer::Thread);
        auto image = TRY(ptrace::read_object<std::int32_t>(pid, at + offsetof(restorer::Thread, image_tid)));
        auto real = TRY(ptrace::read_object<std::int32_t>(pid, at + offsetof(restorer::Thread, real_tid)));
        // In a pid namespace of its own it calls itself otherwise than we do.
        if (rebuilding.process->own_pids) {
            const auto called = proc::thread_called(pid, real);
            if (!called) return fail("thread {} of process {} has ended", image, rebuilding.process->pid);
            real = *called;
        }
        rebuilding.thread_ids.push_back({ProgramId(image), KernelId(real)});
    }
    return true;
}

}  // namespace cairn::restart
