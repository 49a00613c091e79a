// What the page server, its keeper and the restart tool share: memory, and their table of descriptors
// (clone(2) with CLONE_FILES), so that no userfaultfd is closed by the death of one of them. For the kernel
// gives zeros when the last descriptor of a userfaultfd is closed.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/region.h"
#include "common/region_mapping.h"
#include "restart/rebuild/memory_plan.h"

namespace cairn::restart::pages {

struct Served {                    // a process whose pages come lazily
    pid_t pid = 0;                 // the kernel's
    std::string name;              // for messages
    std::vector<PageData> images;  // as ServedRun::image numbers them
    std::vector<ServedRun> runs;
};

struct ServedRegion {
    const Region* region = nullptr;
    FileKey key;
};

struct Work {
    pid_t tool = 0;  // the restart tool; said by itself, for a helper may find it dead when it first runs
    std::vector<Served> processes;
    std::vector<ServedRegion> regions;  // whose programs end when pages can't be had
    int lock = -1;                      // what a capture waits for; how much is left is written to it
};

class Shared {
  public:
    // `processes`: how many are served from the beginning.
    [[nodiscard]] static Result<Shared> create(std::size_t processes);
    Shared(Shared&& other) noexcept;
    Shared& operator=(Shared&&) = delete;
    ~Shared();

    // The userfaultfd of a served process; -1: it isn't there yet.
    [[nodiscard]] std::atomic<int>& user_fault(std::size_t process) const { return user_faults_[process]; }
    // A pidfd of somebody who has to end when pages can't be had: a served process, or a child of one.
    void add_process(int pidfd) const;
    [[nodiscard]] std::span<const std::atomic<int>> process_descriptors() const;

    // The programs go on. Until then the background stands back: the processors are for what they wait for.
    [[nodiscard]] std::atomic<bool>& going() const { return memory_->going; }
    // Everything is in place.
    [[nodiscard]] std::atomic<bool>& finished() const { return memory_->finished; }
    // Somebody has begun to end the programs: he says why, nobody else.
    [[nodiscard]] std::atomic<bool>& failed() const { return memory_->failed; }

  private:
    static constexpr std::uint32_t most_processes = 1 << 16;
    struct Memory {
        std::atomic<bool> going, finished, failed;
        std::atomic<std::uint32_t> count;
        std::array<std::atomic<int>, most_processes> pidfds;
    };
    Shared(void* memory, std::size_t size);

    std::size_t size_;
    Memory* memory_;
    std::atomic<int>* user_faults_;
};

// Ends everybody who may miss pages, and waits until they have gone, for ten seconds at most; then the
// userfaultfds may be closed. Nobody may go on with memory that isn't what it was.
void end_programs(const Work& work, const Shared& shared, const std::string& why);

}  // namespace cairn::restart::pages
