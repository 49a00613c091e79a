// The pid namespaces of the part's own in a forest: which is below which, and who may choose the ids in each.
//
// clone3(2) lets the caller choose ids from the innermost namespace outwards, as far as it has the rights in
// the user namespaces that own them. Who is in a user namespace below has none in those above. What it may
// not choose itself a *clerk* chooses for it, a process in the namespace concerned that has the rights there:
// it says which id the kernel hands out next (/proc/sys/kernel/ns_last_pid), while nobody else of the forest
// forks.
#pragma once

#include <map>
#include <optional>

#include "restart/forest/metadata.h"

namespace cairn::restart::forest {

struct Space {
    std::uint64_t above = 0;  // 0: the tool's
    int first = 0;            // node
    int chosen = 1;           // how many ids, its own first, may be chosen from within
    std::int32_t last = 0;    // the highest id in it that somebody is to have
    int clerk = -1;           // process of the plan
};
using Spaces = std::map<std::uint64_t, Space>;  // by Node::space

// The namespace, the one around it and so on, without the tool's.
[[nodiscard]] std::vector<std::uint64_t> chain_of(const Spaces& spaces, std::uint64_t space);

// A namespace's first process has a parent in the one around it and all others descend from it; who is in a
// group that is led from outside is in that which the first one was born into. Fails with a pid for what
// nobody has made so.
[[nodiscard]] Result<Spaces> find_spaces(const Metadata& data);

// An id by which somebody in a pid namespace is known, and in those around, the innermost first.
struct Numbers {
    std::uint64_t space = 0;
    std::vector<std::int32_t> ids;
};
// Of the leader of a session (`group` false) or group that this node is in. None: it has no number in the
// node's namespaces.
[[nodiscard]] std::optional<Numbers> numbers_of_leader(const Spaces& spaces, const Node& node, bool group);

}  // namespace cairn::restart::forest
