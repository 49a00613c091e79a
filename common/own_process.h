// A coordinator and its captures are nobody's children: what governs them must not depend on the shell, job
// or service from which the first program of a session happened to be launched.
//
// The static front command links this as well: nothing but the C library and std::string.
#pragma once

#include <string>
#include <vector>

namespace cairn {

// Every limit as high as we may have it: the hard limit too where that is permitted (CAP_SYS_RESOURCE), else
// the soft limit as high as the hard one. The stack gets the usual 8 MiB, which threads take for theirs as
// well. Only system calls: for use between fork and exec.
void raise_limits();

// The limits that are so low by their hard limit that a checkpoint may fail for it, each a phrase with its
// name, its value and the option of ulimit: "files can't grow beyond 6144000 bytes (ulimit -H -f)".
[[nodiscard]] std::vector<std::string> low_limits();

// What of our environment a coordinator or capture may have, as NAME=VALUE: CAIRN_*, who we are and where
// things are. What else there is (LD_PRELOAD, passwords) was meant for a program.
[[nodiscard]] std::vector<std::string> own_environment();

// Puts back to what a process has that was started by init: signal dispositions and mask, limits, niceness,
// scheduling policy, I/O class, CPU affinity, memory policy, timer slack, umask (077), personality,
// oom_score_adj. SIGXFSZ stays ignored: a write beyond the limit fails then with EFBIG and can be told of.
// Returns what couldn't be put back, in words. The cgroup is kept: who put us into it wants to find us there.
[[nodiscard]] std::vector<std::string> stand_alone();

// Which limit, or what else, is likely to be behind a death by this signal: a phrase, or "".
[[nodiscard]] std::string cause_of_death(int signal);

// "SIGXFSZ"
[[nodiscard]] std::string name_of_signal(int signal);

// From now on a deadly signal that can be caught is told on stderr before it kills us: "PROGRAM: killed by
// SIGABRT". `program` must be a literal.
void tell_own_death(const char* program);

}  // namespace cairn
