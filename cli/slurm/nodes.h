// A job on several nodes: the first has the root coordinator, and what runs on the others is started there by
// srun.
//
// What a program of the computation starts itself (mpiexec its part on another node) has to be started from
// outside of it: srun talks to Slurm's daemons, which are never saved. `spawn` is what mpiexec is given in
// the place of ssh.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "cli/job/commands.h"
#include "cli/slurm/job.h"

namespace cairn::slurm {

struct Party {
    std::string session;             // of the first node; the others' names end otherwise
    std::vector<std::string> nodes;  // the first is this one
    std::string endpoint;            // HOST:PORT of the root coordinator; "" where there is one node
    std::string key;                 // file with its key, on a disk that all nodes see

    [[nodiscard]] bool several() const { return nodes.size() > 1; }
    // A checkpoint's parts are called by the place of their node in the job: names and addresses of the nodes
    // change.
    [[nodiscard]] static std::string host_name(std::size_t node) { return "node" + std::to_string(node); }
    [[nodiscard]] std::string session_of(std::size_t node) const {
        return session + "-n" + std::to_string(node);
    }
    // `cairn VERB`, with what joins the computation there, to be run on that node by job::start_command().
    [[nodiscard]] job::Words on_node(std::size_t node, const std::string& verb, const job::Words& more) const;
};

// Chooses where the root listens; the key is there when it does (publish_key).
[[nodiscard]] Result<Party> make_party(const Job& job, const std::string& folder);
[[nodiscard]] Result<> publish_key(const Party& party);

// Writes FOLDER/spawn, and tells MPICH's and Open MPI's mpiexec by the environment to use it.
[[nodiscard]] Result<> prepare_spawning(const Party& party, const std::string& folder);

// What FOLDER/spawn calls: SESSION ENDPOINT KEY NODES... -- [mpiexec's options] NODE COMMAND...
[[nodiscard]] Result<> spawn(std::span<char* const> words);

}  // namespace cairn::slurm
