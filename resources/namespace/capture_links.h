// Network interfaces of a network namespace of the group's own.
#pragma once

#include <vector>

#include "common/error.h"
#include "resources/namespace/schema.h"

namespace cairn::capture {

// A veth whose other end is in another network namespace, by the number that this one has for that.
struct FarEnd {
    std::int32_t index = 0;  // of the veth
    std::int32_t network = 0;
};

struct FoundLinks {
    std::vector<schema::Link> links;
    std::vector<schema::Bytes> routes;
    std::vector<FarEnd> far_ends;
};

// Of the namespace that the caller is in. Refused is an interface that a restart couldn't make again.
[[nodiscard]] Result<FoundLinks> find_links();
// The number that the caller's network namespace has for another one, by a descriptor of that; -1: none.
[[nodiscard]] Result<std::int32_t> number_of_network(int network);

}  // namespace cairn::capture
