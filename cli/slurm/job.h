// The job of Slurm's that this process runs in: what the environment and scontrol say of it, and what it asks
// of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::slurm {

struct Job {
    std::string id;                  // what scontrol takes, for a task of an array, too
    std::string name;                // 17, or 17_3 for a task of an array
    int restarts = 0;                // how often Slurm has requeued it
    std::string node;                // where this is
    std::vector<std::string> nodes;  // all of them; this one is the first
};

// Fails with ExitCode::refused outside of a batch job.
[[nodiscard]] Result<Job> this_job();

struct JobState {
    std::string state;       // RUNNING, COMPLETING, ...
    std::int64_t start = 0;  // seconds since 1970; 0: not known
    std::int64_t end = 0;    // when the time limit ends it, or preemption does; 0: never
    bool preempted = false;  // it has been chosen, and its grace time runs
};

[[nodiscard]] Result<JobState> job_state(const Job& job);
// What `scontrol show -o job` prints.
[[nodiscard]] JobState parse_job_state(const std::string& text);
// The value of NAME= in such a line, up to the next blank; "" if it isn't there.
[[nodiscard]] std::string field_of(const std::string& text, const std::string& name);

// What squeue shows as the job's comment.
[[nodiscard]] Result<> set_comment(const Job& job, const std::string& text);
[[nodiscard]] Result<> requeue(const Job& job);
// How Slurm's daemons call a node.
[[nodiscard]] Result<std::string> address_of(const std::string& node);

}  // namespace cairn::slurm
