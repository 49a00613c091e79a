// How a process gets at a region that it can't open by its path (coordinator/gate.h).
#pragma once

namespace cairn::hijack {

// A descriptor (close-on-exec) of the region's file from the coordinator, or -errno. `gate` is OWNER:NAME:
// what answers has to be a process of OWNER's, as anybody may take an abstract name that is free. Waits for
// some seconds at most: the one place where a program waits for the coordinator, and only to begin or to
// become another user.
long ask_at_gate(const char* gate);
long ask_at_gate(unsigned owner, const char* name);

}  // namespace cairn::hijack
