// Passes 7, 8 and 10 of a restart for one process: the restorer blob is placed into it after its exec,
// rebuilds it, and at last every thread gets its registers and goes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/schema/process.h"
#include "restart/memory_plan.h"
#include "restart/objects/objects.h"
#include "restart/objects/system_v.h"
#include "restart/tracee.h"

namespace cairn::restart {

// What the process needs of the tool. All descriptors are open in the process (inherited) at these numbers.
struct RebuildContext {
    const schema::Process* process = nullptr;
    int image_fd = -1;
    std::string image_path;  // for messages
    const ObjectSet* objects = nullptr;
    const SystemV* system_v = nullptr;
    IpcMap* ipc = nullptr;  // ids of System V objects
    int region_fd = -1;
    int close_from = 0;  // descriptors from here on are the restart's own; -1: none is left when its memory
                         // is there (ObjectSet::postponed)
    bool exact_ids = false;
    bool lazy = false;             // memory comes from a page server where that is exact
    std::int64_t clock_shift = 0;  // the process's CLOCK_MONOTONIC is ahead of the tool's by so much, ns
    Translate to_kernel;
    std::function<std::string(std::int64_t object)> path_of;  // of a mapped file, path map applied
};

class Rebuild {
  public:
    Rebuild(pid_t pid, RebuildContext context);

    // At the exec stop: places the blob and lets it run. The process then belongs to the tool's event loop.
    [[nodiscard]] Result<> enter();

    // A thread of the process has trapped. True when the process is complete.
    [[nodiscard]] Result<bool> trapped(pid_t tid);

    // The pages that somebody has to serve; who takes the process's userfaultfd, `there` being its number in
    // the process.
    [[nodiscard]] const std::vector<restorer::Run>& lazy_runs() const { return memory_.lazy_runs; }
    using TakeUserFault = std::function<Result<>(int there)>;
    void set_server(TakeUserFault take) { take_user_fault_ = std::move(take); }

    // After the barrier: timers and pending signals. Waits for it (microseconds).
    [[nodiscard]] Result<> prepare_to_go();
    // Registers and masks of every thread; the blob is unmapped.
    [[nodiscard]] bool has_pending_trap() const;
    [[nodiscard]] Result<> ignore_traps(std::uint64_t call_at);
    [[nodiscard]] Result<> set_threads();
    // What is set from outside, and last, because it could be in the way before: limits, oom_score_adj. Notes
    // what this user may not set.
    void set_limits(std::vector<std::string>& notes) const;
    // Detaches. The program runs, or stands still by job control as it did.
    void go();

    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] const schema::Process& process() const { return *context_.process; }
    // Image's tid -> kernel's, for the id map.
    [[nodiscard]] const std::vector<std::pair<pid_t, pid_t>>& thread_ids() const { return thread_ids_; }
    // `told`: kernel's pids of those whose stop the program has waited for.
    void set_stopped_children(std::vector<std::int32_t> told, bool any) {
        stopped_children_ = std::move(told);
        any_stopped_child_ = any;
    }
    // An error if the blob gave up.
    [[nodiscard]] Result<> failure() const;

  private:
    class Block;  // the parameters' memory while it is laid out
    [[nodiscard]] Result<> settle_exec();
    [[nodiscard]] Result<std::uint64_t> find_hole(const std::vector<proc::MapLine>& lines,
                                                  std::uint64_t size) const;
    [[nodiscard]] Result<> fill(Block& block, const std::vector<proc::MapLine>& lines,
                                std::uint64_t hole_end);
    void fill_areas(Block& block);
    void fill_threads(Block& block);
    void fill_signals(Block& block);
    void fill_credentials(Block& block);
    [[nodiscard]] Result<> fill_descriptors(Block& block);
    void fill_undo(Block& block);
    [[nodiscard]] std::uint64_t largest_segment() const;
    [[nodiscard]] Result<> set_thread(std::size_t index);
    [[nodiscard]] Result<> set_cpu_time();
    [[nodiscard]] Result<> set_thread_cpu_time(const schema::Thread& thread, pid_t tid,
                                               const ptrace::Registers& registers);

    pid_t pid_;
    RebuildContext context_;
    std::uint64_t base_ = 0, blob_size_ = 0, total_size_ = 0;
    std::uint64_t params_at_ = 0, threads_at_ = 0;
    std::vector<std::uint64_t> filters_at_;  // struct sock_fprog each
    std::uint64_t staging_ = 0, reader_spaces_ = 0, attach_at_ = 0;
    MemoryPlan memory_;
    TakeUserFault take_user_fault_;
    bool handed_over_ = false;
    std::size_t ready_ = 0, expected_ = 0;
    std::vector<std::pair<pid_t, pid_t>> thread_ids_;
    std::vector<std::int32_t> stopped_children_;
    bool any_stopped_child_ = false;
    std::vector<std::string> area_names_;
};

}  // namespace cairn::restart
