#include "common/privileges.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "common/proc.h"
#include "common/sched_attributes.h"

namespace cairn {
namespace {

Privileges read_privileges() {
    Privileges own;
    const auto status = proc::status(::getpid(), ::getpid());
    if (!status) return own;
    const auto& field = *status;
    std::istringstream uids(field["Uid"]), gids(field["Gid"]), groups(field["Groups"]);
    for (auto& id : own.uids) uids >> id;
    for (auto& id : own.gids) gids >> id;
    for (std::uint32_t group = 0; groups >> group;) own.groups.push_back(group);
    own.inheritable = proc::hexadecimal(field["CapInh"]);
    own.permitted = proc::hexadecimal(field["CapPrm"]);
    own.effective = proc::hexadecimal(field["CapEff"]);
    own.bounding = proc::hexadecimal(field["CapBnd"]);
    own.ambient = proc::hexadecimal(field["CapAmb"]);
    return own;
}

}  // namespace

bool Privileges::same_as(const schema::Process& process) const {
    if (!std::ranges::equal(uids, process.uids) || !std::ranges::equal(gids, process.gids) ||
        groups != process.groups || bounding != process.cap_bounding || process.securebits != 0)
        return false;
    return std::ranges::all_of(process.threads, [&](const schema::Thread& thread) {
        return thread.leader_dead ||
               (thread.cap_inheritable == inheritable && thread.cap_permitted == permitted &&
                thread.cap_effective == effective && thread.cap_ambient == ambient);
    });
}

std::uint64_t Privileges::bounding_of(const schema::Process& process) const {
    if (process.namespaces) return process.cap_bounding;  // entering them gives the right to lower it
    constexpr unsigned setpcap = 8;                       // CAP_SETPCAP
    const bool may_take = (effective >> setpcap & 1) != 0;
    return process.cap_bounding | (may_take ? 0 : bounding);
}

namespace {

Privileges& known_privileges() {
    static Privileges own = read_privileges();
    return own;
}

}  // namespace

const Privileges& own_privileges() {
    return known_privileges();
}

void capabilities_have_changed() {
    Privileges& own = known_privileges();
    const Privileges fresh = read_privileges();
    own.inheritable = fresh.inheritable;
    own.permitted = fresh.permitted;
    own.effective = fresh.effective;
    own.bounding = fresh.bounding;
    own.ambient = fresh.ambient;
}

Scheduling own_scheduling() {
    SchedAttributes attributes = {};
    ::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0);
    return {attributes.policy, attributes.priority, attributes.nice,
            static_cast<std::int32_t>(::syscall(SYS_ioprio_get, 1, 0))};
}

std::int32_t io_priority(std::int32_t said) {
    constexpr int class_shift = 13;  // IOPRIO_CLASS_SHIFT; IOPRIO_CLASS_NONE is 0
    return said >> class_shift == 0 ? 0 : said;
}

bool Scheduling::same_as(const schema::Thread& thread) const {
    return static_cast<std::uint32_t>(thread.policy) == policy &&
           static_cast<std::uint32_t>(thread.priority) == priority && thread.nice == nice &&
           io_priority(thread.ioprio) == io_priority(ioprio) && thread.sched_flags.value_or(0) == 0 &&
           !thread.slice;
}

}  // namespace cairn
