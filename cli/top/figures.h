// What /proc says of processes from one sample to the next.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>

#include "cli/top/sample.h"

namespace cairn::top {

// A checkpoint leaves each page of a process write-protected, because its copy-on-write child has it as well:
// whoever writes to one afterwards takes a page fault, once. So the minor faults since then (proc(5), minflt)
// count the pages that have been written, and others (new ones, those that were only read for the first
// time): an upper bound that costs nothing.
class Figures {
  public:
    // Fills what is this host's to tell. Who isn't in `rows` is forgotten.
    void fill(std::vector<ProcessRow>& rows);
    // The programs have just gone on from a checkpoint: dirty pages are counted from here.
    void begin_counting();

  private:
    struct Known {
        std::uint64_t started = 0;  // clock ticks: another process may get the number
        std::uint64_t ticks = 0;    // of processors
        std::chrono::steady_clock::time_point at{};
        std::optional<std::uint64_t> faults_at_checkpoint{};
    };
    std::map<pid_t, Known> known_;
    bool counting_ = false;
};

}  // namespace cairn::top
