#include "cli/slurm/job.h"

#include <charconv>
#include <cstdlib>
#include <ctime>
#include <sstream>

#include "cli/job/commands.h"

namespace cairn::slurm {
namespace {

// As long as Slurm's commands wait for a controller themselves, and a little.
constexpr std::chrono::seconds patience{30};

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// scontrol is asked for seconds since 1970 by SLURM_TIME_FORMAT; words (None, Unknown) are 0.
std::int64_t seconds_of(const std::string& text) {
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

}  // namespace

Result<Job> this_job() {
    Job job;
    job.id = variable("SLURM_JOB_ID");
    job.node = variable("SLURMD_NODENAME");
    if (job.id.empty() || job.node.empty())
        return fail_code(
            ExitCode::refused,
            "slurm run: this is no batch job of Slurm's (SLURM_JOB_ID and SLURMD_NODENAME aren't set); "
            "it belongs into the script that sbatch is given");
    const std::string array = variable("SLURM_ARRAY_JOB_ID");
    job.name = array.empty() ? job.id : array + "_" + variable("SLURM_ARRAY_TASK_ID");
    // One task of an array has the array's own number as its job's, by which scontrol would change or requeue
    // all of them.
    job.id = job.name;
    job.restarts = static_cast<int>(seconds_of(variable("SLURM_RESTART_COUNT")));
    ::setenv("SLURM_TIME_FORMAT", "%s", 1);
    if (variable("SLURM_JOB_NUM_NODES") == "1" || variable("SLURM_JOB_NODELIST").empty()) {
        job.nodes = {job.node};
        return job;
    }
    std::istringstream lines(
        TRY(job::ask_command({"scontrol", "show", "hostnames", variable("SLURM_JOB_NODELIST")}, patience)));
    for (std::string line; std::getline(lines, line);)
        if (!line.empty()) job.nodes.push_back(line);
    if (job.nodes.empty() || job.nodes[0] != job.node)
        return fail_code(ExitCode::refused,
                         "slurm run: it has to run on the first of the job's nodes, not on {}", job.node);
    return job;
}

std::string field_of(const std::string& text, const std::string& name) {
    const std::string padded = " " + text;
    const std::size_t at = padded.find(" " + name + "=");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size() + 2;
    return padded.substr(begin, padded.find_first_of(" \n", begin) - begin);
}

JobState parse_job_state(const std::string& text) {
    JobState state;
    state.state = field_of(text, "JobState");
    state.start = seconds_of(field_of(text, "StartTime"));
    if (field_of(text, "TimeLimit") != "UNLIMITED" || seconds_of(field_of(text, "PreemptTime")) != 0)
        state.end = seconds_of(field_of(text, "EndTime"));
    // What an earlier run has left there is from before this one's start.
    state.preempted = seconds_of(field_of(text, "PreemptTime")) >= std::max<std::int64_t>(state.start, 1);
    return state;
}

Result<JobState> job_state(const Job& job) {
    const std::string text = TRY(job::ask_command({"scontrol", "show", "-o", "job", job.id}, patience));
    JobState state = parse_job_state(text);
    if (state.state.empty()) return fail("scontrol doesn't tell the state of job {}", job.id);
    return state;
}

Result<> set_comment(const Job& job, const std::string& text) {
    return error_of(job::ask_command({"scontrol", "update", "JobId=" + job.id, "Comment=" + text}, patience));
}

Result<> requeue(const Job& job) {
    return error_of(job::ask_command({"scontrol", "requeue", job.id}, patience));
}

Result<std::string> address_of(const std::string& node) {
    const std::string text = TRY(job::ask_command({"scontrol", "show", "-o", "node", node}, patience));
    const std::string address = field_of(text, "NodeAddr");
    return address.empty() ? node : address;
}

}  // namespace cairn::slurm
