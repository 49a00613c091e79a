// Users and groups in user namespaces of the programs' own (user_namespaces(7)): in there everybody has other
// numbers, and only these can be given to setresuid(2) and the like.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "restart/computation.h"

namespace cairn::restart {

// Null: there is none.
[[nodiscard]] const schema::Process* process_called(ProgramId id, const Computation& computation);
// What a process in a pid namespace of its own calls one in there, or below.
[[nodiscard]] KernelId called_inside(const schema::OwnPids& caller, const schema::OwnPids& called);

struct Users {
    std::uint32_t uids[4] = {}, gids[4] = {};  // real, effective, saved, file system
    std::vector<std::uint32_t> groups;
    bool sets_groups = true;  // false: it has them already

    [[nodiscard]] bool same_as(const Users& other) const;
};
[[nodiscard]] Users users_of(const schema::Process& process);  // as they are outside
[[nodiscard]] Users own_users();                               // those that the restart has

// The user namespace around who makes the pid namespace of this first process, by its object's id; -1: none
// of the programs' own.
[[nodiscard]] std::int64_t users_around(const schema::Process& first, const Computation& computation);

// Who a process of a pid namespace of a user namespace (OwnPids::owner) is when it is born, by the numbers
// outside: its namespace's first process, or, where only root could become that one, the tool.
[[nodiscard]] Users born_as(const schema::Process& process, const Computation& computation);

// By the numbers in there; `owner` -1: as they are. An error names the one that has none.
[[nodiscard]] Result<Users> users_inside(const Users& outside, std::int64_t owner,
                                         const Computation& computation);

// Of such a process, if it isn't who it is born as.
[[nodiscard]] Result<std::optional<Users>> other_users(const schema::Process& process,
                                                       const Computation& computation);

}  // namespace cairn::restart
