// What a checkpoint makes of processes that belong to the group by all signs and have not registered: it is
// refused for them, or leaves them out with a note (--without-strangers).
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "capture/checkpoint.h"
#include "capture/group.h"
#include "capture/report.h"
#include "capture/strangers.h"

namespace cairn::capture {

class Outsiders {
  public:
    Outsiders(const Request& request, const SessionRegions& regions);

    // While the programs run: looks at all processes of the host.
    [[nodiscard]] Result<> look();

    // A stop begins (again): how long somebody has not registered is counted anew.
    void begin_stop() { waiting_since_.clear(); }
    // Those who have come since look(). To be asked when all that are known stand still.
    [[nodiscard]] std::vector<pid_t> come_since();
    // A process without libcairn.so that is to be stopped. True: it is left out; false: not yet. An error
    // gives the checkpoint up.
    [[nodiscard]] Result<bool> leave_out(pid_t pid);
    // Whether those who haven't registered are to be left out.
    [[nodiscard]] bool leaves_out_strangers() const { return without_strangers_; }
    // Those who are to be given the library and have no member that would lead to them.
    [[nodiscard]] const std::vector<pid_t>& orphans() const { return strangers_.orphans(); }
    [[nodiscard]] bool left_out(pid_t pid) const { return strangers_.left_out(pid); }
    // With everybody stopped.
    [[nodiscard]] Result<> judge_crowd(const std::map<pid_t, StoppedProcess>& stopped) const;

    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  private:
    [[nodiscard]] Result<> judge(const std::vector<Strangers::Stranger>& strangers);

    const SessionRegions* regions_;
    bool without_strangers_;
    Strangers strangers_;
    std::map<pid_t, Strangers::Stranger> come_;         // since look()
    std::map<pid_t, Clock::time_point> waiting_since_;  // who has been looked at and isn't left out yet
    std::vector<std::string> notes_;                    // whom an attempt has left out stays so, and is said
};

}  // namespace cairn::capture
