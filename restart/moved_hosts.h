// Hosts of a computation whose parts run at other addresses than the programs know.
#pragma once

#include <string>
#include <vector>

#include "common/region.h"
#include "common/schema/manifest.h"
#include "common/wire/events.h"

namespace cairn::restart {

// `places`: where each part is now, as the coordinator tells at the barrier (docs/protocol.md, "go").
[[nodiscard]] std::vector<std::string> addresses_now(const std::vector<wire::PartAt>& places);

// Enters each address that a host had and has no more, with the one of the same family that it has now.
void note_moved_hosts(const schema::Manifest& manifest, const std::vector<wire::PartAt>& places,
                      SocketNames& names);

}  // namespace cairn::restart
