// What `cairn inspect` prints.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/inspect_load.h"

namespace cairn::inspect {

struct Show {
    bool maps = false, fds = false, signals = false, threads = false;
    [[nodiscard]] bool any() const { return maps || fds || signals || threads; }
};

[[nodiscard]] std::string heading(const schema::Manifest& manifest, const std::string& folder);
// As ps axjf: ids, terminal, state, sizes, and the commands as a tree.
[[nodiscard]] std::string process_tree(const Checkpoint& checkpoint);
[[nodiscard]] std::string process_details(const Checkpoint& checkpoint, const LoadedProcess& process,
                                          Show show);
// A single image: everything about it, or what `show` asks for.
[[nodiscard]] std::string object_list(const LoadedObjects& objects);

[[nodiscard]] std::string maps_text(const Checkpoint& checkpoint, const LoadedProcess& process);
[[nodiscard]] std::string descriptors_text(const Checkpoint& checkpoint, const LoadedProcess& process);
[[nodiscard]] std::string signals_text(const schema::Process& process);
// The system call that a thread is in, or "running".
[[nodiscard]] std::string doing(const schema::Thread& thread);
[[nodiscard]] std::string threads_text(const schema::Process& process);

// "pipe 3, read end, 12 bytes in it"
[[nodiscard]] std::string describe(const schema::Object& object);

// Everything, whatever was asked for.
[[nodiscard]] nlohmann::json as_json(const Checkpoint& checkpoint);

}  // namespace cairn::inspect
