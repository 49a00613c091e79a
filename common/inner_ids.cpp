#include "common/inner_ids.h"

#include <sstream>
#include <vector>

#include "common/proc.h"

namespace cairn::proc {
namespace {

std::vector<pid_t> numbers_of(const std::string& text) {
    std::istringstream words(text);
    std::vector<pid_t> all;
    for (pid_t number = 0; words >> number;) all.push_back(number);
    return all;
}

std::optional<pid_t> one_called(const std::vector<pid_t>& candidates, pid_t inner) {
    for (const pid_t candidate : candidates)
        if (const auto ids = inner_ids(candidate, candidate);
            ids && (ids->depth() == 0 ? candidate : ids->own().pid) == inner)
            return candidate;
    return std::nullopt;
}

}  // namespace

Result<InnerIds> inner_ids(pid_t pid, pid_t tid) {
    auto fields = TRY(status(pid, tid));
    const auto pids = numbers_of(fields["NSpid"]), groups = numbers_of(fields["NSpgid"]),
               sessions = numbers_of(fields["NSsid"]);
    InnerIds ids;
    if (groups.size() != pids.size() || sessions.size() != pids.size()) return ids;
    for (std::size_t i = pids.size(); i-- > 1;) ids.in.push_back({pids[i], groups[i], sessions[i]});
    return ids;
}

bool in_inner_pids(pid_t pid) {
    const auto ids = inner_ids(pid, pid);
    return ids && ids->depth() > 0;
}

std::optional<pid_t> child_called(pid_t parent, pid_t inner, std::string_view name) {
    auto all = children(parent).value_or(std::vector<pid_t>{});
    std::erase_if(all, [&](pid_t child) {
        const auto its = stat(child);
        return !its || its->comm != name;
    });
    return one_called(all, inner);
}

std::optional<pid_t> thread_called(pid_t process, pid_t inner) {
    return one_called(tasks(process).value_or(std::vector<pid_t>{}), inner);
}

}  // namespace cairn::proc
