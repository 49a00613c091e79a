#include "cli/slurm/nodes.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/fd.h"
#include "common/layout.h"
#include "common/session.h"

namespace cairn::slurm {
namespace {

// One that nobody has just now. Another may take it before the coordinator does, which then says so.
Result<int> free_port() {
    const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t size = sizeof address;
    auto* const named = reinterpret_cast<sockaddr*>(&address);
    if (!fd || ::bind(fd.get(), named, size) != 0 || ::getsockname(fd.get(), named, &size) != 0)
        return fail_errno("a port for the coordinator");
    return ntohs(address.sin_port);
}

std::string quoted(const std::string& word) {
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

// A node may be called by its name in Slurm or by that with a domain.
std::size_t place_of(const std::vector<std::string>& nodes, const std::string& name) {
    const auto same = [&](const std::string& node) {
        return node == name || name.starts_with(node + ".") || node.starts_with(name + ".");
    };
    return static_cast<std::size_t>(std::ranges::find_if(nodes, same) - nodes.begin());
}

}  // namespace

job::Words Party::on_node(std::size_t node, const std::string& verb, const job::Words& more) const {
    job::Words words;
    if (node > 0)
        // All that the job has on the node, beside other steps: this step is the job's part there.
        words = {"srun",
                 "--overlap",
                 "--whole",
                 "--nodes=1",
                 "--ntasks=1",
                 "--ntasks-per-node=1",
                 "--nodelist=" + nodes[node],
                 "--mem=0",
                 "--cpu-bind=none",
                 "--mpi=none",
                 "--input=none",
                 "--quiet",
                 "env",
                 "CAIRN_HOST=" + host_name(node)};
    words.insert(words.end(), {own_program("cairn"), verb, "--session", session_of(node)});
    if (node > 0) words.insert(words.end(), {"--coordinator", endpoint, "--key", key});
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

Result<Party> make_party(const Job& job, const std::string& folder) {
    Party party{.session = fmt::format("slurm-{}-{}", job.name, job.restarts),
                .nodes = job.nodes,
                .endpoint = {},
                .key = {}};
    if (!party.several()) return party;
    const std::string address = TRY(address_of(job.node));
    party.endpoint = fmt::format("{}:{}", address, TRY(free_port()));
    party.key = folder + "/key";
    return party;
}

Result<> publish_key(const Party& party) {
    const auto session = find_session(party.session_of(0));
    if (!session) return fail("{}", session.error());
    std::ifstream from(session->directory + "/key", std::ios::binary);
    std::filesystem::remove(party.key);
    const Fd to(::open(party.key.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const std::string text(std::istreambuf_iterator<char>(from), {});
    if (!to || text.empty() ||
        ::write(to.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return fail_errno("{}: the coordinator's key can't be written", party.key);
    return {};
}

Result<> prepare_spawning(const Party& party, const std::string& folder) {
    const std::string path = folder + "/spawn";
    std::string line = "exec " + quoted(own_program("cairn")) + " slurm spawn";
    for (const std::string& word : {party.session, party.endpoint, party.key}) line += " " + quoted(word);
    for (const std::string& node : party.nodes) line += " " + quoted(node);
    std::ofstream file(path, std::ios::trunc);
    file << "#!/bin/sh\n# Starts mpiexec's part on another node within the computation.\n"
         << line << " -- \"$@\"\n";
    file.close();
    if (!file || ::chmod(path.c_str(), 0700) != 0) return fail_errno("{}", path);
    for (const auto& [name, value] : {std::pair<const char*, std::string>{"HYDRA_LAUNCHER", "ssh"},
                                      {"HYDRA_LAUNCHER_EXEC", path},
                                      {"OMPI_MCA_plm", "rsh"},
                                      {"OMPI_MCA_plm_rsh_agent", path},
                                      {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"}})
        ::setenv(name, value.c_str(), 1);
    return {};
}

Result<> spawn(std::span<char* const> words) {
    const job::Words all(words.begin(), words.end());
    auto at = std::ranges::find(all, "--");
    if (at == all.end() || at - all.begin() < 4)
        return fail_code(ExitCode::usage, "slurm spawn: only what `cairn slurm run` writes calls it");
    const Party party{
        .session = all[0], .nodes = job::Words(all.begin() + 3, at), .endpoint = all[1], .key = all[2]};
    for (++at; at != all.end() && at->starts_with('-');) ++at;  // -x: what mpiexec wants of X11
    if (at == all.end()) return fail_code(ExitCode::usage, "slurm spawn: on which node?");
    const std::size_t node = place_of(party.nodes, *at);
    if (node == party.nodes.size()) return fail("slurm spawn: {} is none of the job's nodes", *at);
    std::string command;
    for (++at; at != all.end(); ++at) command += (command.empty() ? "" : " ") + *at;
    // It ends at once: a process that waits for srun would belong to the computation.
    return error_of(job::start_command(party.on_node(node, "launch", {"--", "/bin/sh", "-c", command}),
                                       job::Standing::alone));
}

}  // namespace cairn::slurm
