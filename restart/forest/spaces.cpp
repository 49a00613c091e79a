#include "restart/forest/spaces.h"

#include <algorithm>

namespace cairn::restart::forest {
namespace {

std::int32_t group_at(const Node& node, std::size_t level) {
    return level == 0 ? node.inner_pgid : node.around[level - 1].pgid;
}

// The namespaces that a node is in, as its parents have it.
Result<> check_node(const Metadata& data, const Spaces& spaces, int index) {
    const Node& node = data.nodes[at(index)];
    const auto found = spaces.find(node.space);
    if (found == spaces.end()) return fail("process {}: its pid namespace has no first process", node.pid);
    const int parent = data.parent[at(index)];
    const std::uint64_t parents = parent < 0 ? 0 : data.nodes[at(parent)].space;
    if (parent < 0 || parents != (node.first_of_space() ? found->second.above : node.space))
        return fail("process {}: its parent {} can't be the one of a process in its pid namespace", node.pid,
                    node.ppid);
    const auto chain = chain_of(spaces, node.space);
    if (chain.size() != node.around.size() + 1)
        return fail("process {}: it has ids in {} pid namespaces, and is in {}", node.pid,
                    node.around.size() + 1, chain.size());
    for (std::size_t level = 0; level < chain.size(); ++level) {
        if (group_at(node, level) != 0) continue;
        const int first = spaces.at(chain[level]).first;
        const bool with_first = data.group_of[at(index)] == data.group_of[at(first)];
        if (!with_first || data.nodes[at(first)].inner_pgid != 0)
            return fail(
                "process {}: it is in group {}, which is led from outside of its pid namespace, and the "
                "first process there is in another one",
                node.pid, node.pgid);
    }
    return {};
}

void add_last_ids(const Metadata& data, Spaces& spaces) {
    for (const Node& node : data.nodes) {
        if (node.space == 0) continue;
        const auto chain = chain_of(spaces, node.space);
        auto& own = spaces.at(chain[0]).last;
        own = std::max(own, node.inner_last);
        for (std::size_t level = 1; level < chain.size(); ++level) {
            auto& last = spaces.at(chain[level]).last;
            const auto& ids = node.around[level - 1];
            last = std::max({last, ids.pid, ids.pgid, ids.sid});
        }
    }
}

}  // namespace

std::vector<std::uint64_t> chain_of(const Spaces& spaces, std::uint64_t space) {
    constexpr std::size_t deepest = 32;  // MAX_PID_NS_LEVEL; an image may say what it likes
    std::vector<std::uint64_t> chain;
    for (auto found = spaces.find(space); found != spaces.end() && chain.size() <= deepest;
         found = spaces.find(found->second.above))
        chain.push_back(found->first);
    return chain;
}

Result<Spaces> find_spaces(const Metadata& data) {
    Spaces spaces;
    for (std::size_t i = 0; i < data.nodes.size(); ++i) {
        const Node& node = data.nodes[i];
        if (!node.first_of_space()) continue;
        const int parent = data.parent[i];
        const std::uint64_t above = parent < 0 ? 0 : data.nodes[at(parent)].space;
        if (above == node.space || !spaces.emplace(node.space, Space{above, static_cast<int>(i)}).second)
            return fail("process {}: its pid namespace has two first processes", node.pid);
    }
    for (std::size_t i = 0; i < data.nodes.size(); ++i)
        if (data.nodes[i].space != 0) CHECK_OK(check_node(data, spaces, static_cast<int>(i)));
    for (auto& [id, space] : spaces) {
        const auto chain = chain_of(spaces, id);
        const auto owner = [&](std::uint64_t each) { return data.nodes[at(spaces.at(each).first)].owner; };
        while (at(space.chosen) < chain.size() && owner(chain[at(space.chosen)]) == owner(id)) ++space.chosen;
    }
    add_last_ids(data, spaces);
    return spaces;
}

std::optional<Numbers> numbers_of_leader(const Spaces& spaces, const Node& node, bool group) {
    if (node.space == 0) return std::nullopt;
    std::vector<std::int32_t> ids{group ? node.inner_pgid : node.inner_sid};
    for (const auto& each : node.around) ids.push_back(group ? each.pgid : each.sid);
    const auto chain = chain_of(spaces, node.space);
    const auto known = std::ranges::find_if(ids, [](std::int32_t id) { return id != 0; });
    if (known == ids.end()) return std::nullopt;
    const auto level = known - ids.begin();
    return Numbers{chain[static_cast<std::size_t>(level)], {known, ids.end()}};
}

}  // namespace cairn::restart::forest
