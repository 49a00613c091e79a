// What only a process itself can open (/dev/tty, a file of /proc), and several share since a fork or a dup:
// the first that comes to it opens it and says where it has it, the others take it from him, so that it is
// one open file description again.
#pragma once

#include <cstdint>
#include <optional>

#include "common/fd.h"
#include "resources/restore/shared_array.h"

namespace cairn::restart {

// By object id. 0: nobody has come to it, 1: somebody opens it, else who has it, and at which number.
using FirstHolders = SharedArray<std::uint64_t>;

// Nothing: the caller is the first, and has to open it and then to say so; or who was can't be reached
// (yama(7) lets an ordinary user's process reach its descendants only), and the caller opens one of his own.
// Waits up to 10 s for one that is being opened.
[[nodiscard]] std::optional<Fd> take_from_first(const FirstHolders& holders, std::int64_t object);
// This process has it at a number that it keeps. Only the first one's word counts.
void say_where(const FirstHolders& holders, std::int64_t object, int number);

}  // namespace cairn::restart
