#include "restart/own_users.h"

#include <algorithm>
#include <sstream>

#include "common/privileges.h"

namespace cairn::restart {
namespace {

const schema::Process* first_of_pids(const schema::Process& process, const Computation& computation) {
    const auto found = std::ranges::find_if(computation.processes, [&](const schema::Process& each) {
        return each.own_pids && each.own_pids->pid == 1 && each.own_pids->space == process.own_pids->space;
    });
    return found == computation.processes.end() ? nullptr : &*found;
}

// Lines of /proc/PID/uid_map: inside, outside, how many.
std::optional<std::uint32_t> mapped(const std::string& map, std::uint32_t outside) {
    std::istringstream lines(map);
    for (std::uint64_t inside = 0, from = 0, count = 0; lines >> inside >> from >> count;)
        if (outside >= from && outside - from < count)
            return static_cast<std::uint32_t>(inside + (outside - from));
    return std::nullopt;
}

using Map = std::string schema::OwnNamespace::*;

Result<std::uint32_t> inside_of(std::uint32_t outside, std::int64_t owner, Map map,
                                const Computation& computation) {
    if (owner < 0) return outside;
    const auto& objects = computation.objects.objects.objects;
    const auto found = std::ranges::find(objects, owner, &schema::Object::id);
    const auto* space = found == objects.end() ? nullptr : found->get<schema::Namespace>();
    if (space == nullptr || !space->own)
        return fail_code(ExitCode::damaged, "object {} is no namespace of the programs' own", owner);
    const auto above = TRY(inside_of(outside, space->own->owner, map, computation));
    if (const auto inside = mapped((*space->own).*map, above)) return *inside;
    return fail_code(ExitCode::refused, "{} {} has no number in the user namespace that it is to be used in",
                     map == &schema::OwnNamespace::uid_map ? "user" : "group", outside);
}

}  // namespace

KernelId called_inside(const schema::OwnPids& caller, const schema::OwnPids& called) {
    const std::size_t depth = caller.around ? caller.around->size() : 0,
                      depth_of_called = called.around ? called.around->size() : 0;
    if (depth_of_called <= depth) return KernelId(called.pid);
    return KernelId((*called.around)[depth_of_called - depth - 1].pid);
}

const schema::Process* process_called(ProgramId id, const Computation& computation) {
    const auto found = std::ranges::find(computation.processes, id, &schema::Process::pid);
    return found == computation.processes.end() ? nullptr : &*found;
}

bool Users::same_as(const Users& other) const {
    return std::ranges::equal(uids, other.uids) && std::ranges::equal(gids, other.gids) &&
           groups == other.groups;
}

Users users_of(const schema::Process& process) {
    Users users;
    std::ranges::copy(process.uids, users.uids);
    std::ranges::copy(process.gids, users.gids);
    users.groups = process.groups;
    return users;
}

Users own_users() {
    Users users;
    const auto& own = own_privileges();
    std::ranges::copy(own.uids, users.uids);
    std::ranges::copy(own.gids, users.gids);
    users.groups = own.groups;
    return users;
}

std::int64_t users_around(const schema::Process& first, const Computation& computation) {
    const auto* const parent = process_called(first.ppid, computation);
    return parent != nullptr && parent->own_pids ? parent->own_pids->owner : -1;
}

Users born_as(const schema::Process& process, const Computation& computation) {
    const auto* const first = first_of_pids(process, computation);
    if (first == nullptr) return users_of(process);
    const auto around = users_around(*first, computation);
    if (around >= 0 && around == process.own_pids->owner)
        return born_as(*process_called(first->ppid, computation), computation);
    if (around >= 0 || own_privileges().uids[1] == 0) return users_of(*first);
    return own_users();
}

Result<Users> users_inside(const Users& outside, std::int64_t owner, const Computation& computation) {
    Users inside;
    inside.sets_groups = outside.sets_groups;
    for (std::size_t i = 0; i < 4; ++i) {
        inside.uids[i] = TRY(inside_of(outside.uids[i], owner, &schema::OwnNamespace::uid_map, computation));
        inside.gids[i] = TRY(inside_of(outside.gids[i], owner, &schema::OwnNamespace::gid_map, computation));
    }
    for (const auto group : outside.groups)
        inside.groups.push_back(TRY(inside_of(group, owner, &schema::OwnNamespace::gid_map, computation)));
    return inside;
}

Result<std::optional<Users>> other_users(const schema::Process& process, const Computation& computation) {
    if (!process.own_pids || process.own_pids->owner < 0) return std::nullopt;
    auto wanted = users_of(process);
    const auto born = born_as(process, computation);
    if (wanted.same_as(born)) return std::nullopt;
    // Groups that it has by its birth may have no number in there, and need none.
    wanted.sets_groups = wanted.groups != born.groups;
    if (!wanted.sets_groups) wanted.groups.clear();
    auto inside = users_inside(wanted, process.own_pids->owner, computation);
    if (!inside)
        return std::unexpected(
            std::move(inside.error()).in(fmt::format("process {} ({})", process.pid, process.name)));
    return std::optional(std::move(*inside));
}

}  // namespace cairn::restart
