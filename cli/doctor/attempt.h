// What this machine gives is tried in processes of their own: an attempt that hangs, or that a seccomp filter
// kills, is something found out and not the doctor's end.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cairn::doctor {

using Clock = std::chrono::steady_clock;

struct Observation {
    enum class End { told, killed, late, not_started };
    End end = End::told;
    int signal = 0;    // where it was killed
    int error = 0;     // errno of the call that failed; 0: all worked
    std::string call;  // which call that was
    std::string said;  // what is worth telling; where something failed, why, if errno doesn't say
    std::map<std::string, std::string> facts;

    [[nodiscard]] bool worked() const { return end == End::told && error == 0; }
    // A filter kills by SIGSYS who makes the call.
    [[nodiscard]] bool killed() const { return end == End::killed; }
    [[nodiscard]] bool late() const { return end == End::late; }
    // "ptrace: Operation not permitted"
    [[nodiscard]] std::string why() const;
    [[nodiscard]] std::string fact(const std::string& name) const;
    [[nodiscard]] long number(const std::string& name) const;  // 0 where it isn't there
};

[[nodiscard]] Observation worked(std::string said = {});
[[nodiscard]] Observation failed(std::string call, int error = errno);

using Attempt = std::function<Observation()>;

// One observation for each attempt, in their order. At `until` those that haven't ended are killed, with
// whatever they have started in their process group. At most `at_once` run side by side.
[[nodiscard]] std::vector<Observation> try_all(const std::vector<Attempt>& attempts, Clock::time_point until,
                                               std::size_t at_once);
[[nodiscard]] Observation try_one(const Attempt& attempt, std::chrono::milliseconds patience);

}  // namespace cairn::doctor
