// Landlock (landlock(7)): a thread restricts itself for good, its children and what it executes included, and
// the kernel shows nobody to what. So it can't be made again: that a thread is restricted is found out
// (common/landlock_room.h), and refused or noted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "capture/group.h"
#include "common/agent.h"
#include "common/landlock_policy.h"
#include "common/schema/process.h"

namespace cairn::capture {

// Of this process, and so of a restart's that the same coordinator starts. Asked once.
[[nodiscard]] std::int32_t own_landlock_room();

// Of a thread whose filters have been collected. `image`: what is known of it.
[[nodiscard]] AskLandlock whether_to_ask(const StoppedProcess& process, const StoppedThread& thread,
                                         const schema::Thread& image);

class LandlockJudge {
  public:
    LandlockJudge(LandlockPolicy policy, std::function<void(std::string)> note)
        : policy_(policy), note_(std::move(note)) {}

    // Fills Thread::landlock_layers, with a note for each process that has some. ExitCode::refused: so the
    // policy is. `answers`: as of AgentRun::thread_answers().
    [[nodiscard]] Result<> judge(const StoppedProcess& process, const std::vector<AgentThread>& answers,
                                 schema::Process& image);
    // Once for all that couldn't be asked: sandboxes have many processes.
    void note_unknown() const;

  private:
    LandlockPolicy policy_;
    std::function<void(std::string)> note_;
    std::size_t unknown_ = 0;    // processes
    std::string first_unknown_;  // the label of one
};

}  // namespace cairn::capture
