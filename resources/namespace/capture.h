// Namespaces of the group's own, for descriptors of them.
#pragma once

#include <optional>

#include "resources/capture/table.h"

namespace cairn::capture {

// The object of a namespace that a process of the group was found to be in (ObjectTable::namespaces()).
[[nodiscard]] std::optional<std::int64_t> own_namespace(const Table& table, const Inode& inode);

// A socket belongs to the network namespace that it was made in, whoever has it. Refused is one of the
// group's own, whose addresses and names mean nothing to us.
[[nodiscard]] Result<> refuse_socket_of_own_network(const Table& table, const Description& found);

}  // namespace cairn::capture
