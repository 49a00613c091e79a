#include "coordinator/claim.h"

#include <unistd.h>

#include "common/region_mapping.h"

namespace cairn::coordinator {

Claim judge(const Regions& regions, std::size_t number, pid_t pid, const ProcessInfo& info, bool handed,
            const std::function<bool(pid_t)>& is_member) {
    const bool owners = number == 0;
    // Who isn't root has one region only, which processes of his own alone write into: kinship is enough. But
    // one that has come into a pid namespace of its own unnoticed may speak of a stranger's number.
    if (owners && regions.owner() != 0 && is_member(info.parent)) return Claim::proved;
    const auto ids = user_ids(pid);
    if (!ids) return Claim::unproved;
    if (!ids->belongs_to(regions.user(number), regions.owner())) return Claim::false_;
    if (handed) return Claim::proved;
    // Of the owner's own processes kinship is enough, and much cheaper than to read all mappings: a script
    // can start a thousand processes a second. A child of another user's can be one that has changed its
    // rights.
    if (owners && is_member(info.parent)) return Claim::proved;
    // Who doesn't load the library maps nothing until a checkpoint gives it both: the launcher registers it,
    // and the environment that it was executed with speaks for it.
    if (owners && (is_launcher(pid) || (begins_with_region(pid, regions.owners().path) && !is_secure(pid))))
        return Claim::proved;
    const MappedAt at = find_mapping(pid, regions.key(number));
    if (owners && at.mapped == Mapped::unknown) return Claim::proved;  // our own right, but it isn't dumpable
    return at.mapped == Mapped::yes && at.library ? Claim::proved : Claim::unproved;
}

}  // namespace cairn::coordinator
