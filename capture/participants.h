// Programs that take part in their checkpoints (part/cairn.h): their hooks are called before anybody is
// stopped, nobody is saved in a section that forbids it, and the images say that they are images.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "capture/report.h"
#include "capture/session_regions.h"
#include "capture/stop/stop.h"
#include "common/program_address.h"

namespace cairn::capture {

class Participants {
  public:
    // Borrows both. `capture`: the number that Region::capture holds.
    Participants(const SessionRegions& regions, Reporter& reporter, std::uint64_t capture)
        : regions_(&regions), reporter_(&reporter), capture_(capture) {}
    Participants(const Participants&) = delete;
    Participants& operator=(const Participants&) = delete;
    ~Participants() { give_up(); }

    // While the programs run: waits until nobody is in a section, and then until all hooks have said that
    // their process is ready. Errors: ExitCode::refused for sections and hooks that don't want, timed_out for
    // hooks that don't end.
    [[nodiscard]] Result<> prepare(const std::vector<pid_t>& members);

    // With everybody standing still: an error that passes where somebody is in a section (again).
    [[nodiscard]] Result<> check_still(StoppedGroup& stopped);

    // `copy` has the memory of `pid`: it will know that it has been restarted.
    [[nodiscard]] Result<> mark(pid_t pid, pid_t copy) const;
    // It will not, where the memory had to be read from the process itself.
    void unmark(pid_t pid, pid_t living) const;

    // They go on.
    void go_on() { end(true); }
    // The checkpoint is given up.
    void give_up() { end(false); }

  private:
    struct One {
        ProgramAddress words;
        std::uint64_t mark_before = 0;
        bool hooks = false, asked = false;
    };

    void find(pid_t pid);
    [[nodiscard]] Result<> await_sections();
    [[nodiscard]] Result<> await_hooks();
    void end(bool over);
    void close(pid_t pid, const One& one, std::uint64_t number) const;
    void order(pid_t pid, const One& one, std::uint32_t order) const;
    void wake(pid_t pid) const;

    const SessionRegions* regions_;
    Reporter* reporter_;
    std::uint64_t capture_;
    std::map<pid_t, One> all_;
    bool under_way_ = false;
};

}  // namespace cairn::capture
