// What `cairn slurm run` is asked for: its command line, and before that the site's file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::slurm {

struct Settings {
    std::string folder;  // for the folders of jobs; %u is the user's name. "": $SLURM_SUBMIT_DIR
    std::string name;    // what the job's folder is called, also for another job that goes on from there; "":
                         // by its number
    double interval = 600;  // seconds between checkpoints; 0: only before the job has to go
    int keep = 2;           // generations
    int before = 60;        // seconds before the time limit at which the last one is begun
    int poll = 30;    // seconds between two questions to Slurm about the time limit and preemption; 0: none
    int warning = 0;  // number of the signal that --signal names; SIGUSR1
    bool verify = true;      // read a checkpoint through before it is taken for good
    bool all_nodes = false;  // the program runs once on each of the job's nodes
    bool batch_script =
        false;  // the program is Slurm's copy of the batch script, which goes when the job is requeued
    std::vector<std::string> program;
};

// Where the site's file is, if $CAIRN_SLURM_CONF doesn't say otherwise.
inline constexpr const char* site_file = "/etc/cairn/slurm.conf";

// `words`: what follows `cairn slurm run`. Errors of the command line are ExitCode::usage; those of the
// site's file name it and the line.
[[nodiscard]] Result<Settings> read_settings(std::span<char* const> words);

// The lines NAME=VALUE of a site's file; '#' begins a comment.
[[nodiscard]] Result<> read_site(const std::string& text, const std::string& where, Settings& settings);

// SIGUSR1, USR1 or 10; 0 if it is none that a process can handle.
[[nodiscard]] int signal_number(std::string name);

inline constexpr const char* run_usage =
    "usage: cairn slurm run [OPTIONS] [--] PROGRAM [ARGUMENT...]\n"
    "runs a program within a batch job of Slurm's so that the job can be requeued and goes on\n"
    "\n"
    "  -i, --interval N   checkpoint every N seconds, 0: only before the job has to go; 600\n"
    "  -d, --ckptdir D    folder for the jobs' checkpoints, seen by all nodes; $SLURM_SUBMIT_DIR\n"
    "  -n, --name NAME    name of the job's folder there: another job with this name goes on; by its number\n"
    "  -k, --keep N       keep the newest N checkpoints; 2\n"
    "  -b, --before N     the last one is begun N seconds before the time limit; 60\n"
    "  -p, --poll N       ask Slurm every N seconds for the time limit and preemption, 0: never; 30\n"
    "      --signal S     the warning signal of `sbatch --signal=B:S@N`; USR1\n"
    "      --all-nodes    start the program on each of the job's nodes\n"
    "      --no-verify    take the newest checkpoint for good without reading it through\n"
    "\n"
    "/etc/cairn/slurm.conf ($CAIRN_SLURM_CONF) has the same as lines NAME=VALUE, for a site.\n"
    "Write it as `exec cairn slurm run ...`, the last line of the batch script, or the signal\n"
    "gets to the shell alone. docs/slurm.md tells more.\n";

}  // namespace cairn::slurm
