// A birth that the wrappers have announced: a slot is claimed before the child exists, so that whoever stops
// the group knows whom to wait for.
#pragma once

#include <cerrno>
#include <cstdint>

#include "hijack/raw.h"
#include "hijack/resident.h"

namespace cairn::hijack {

// The birth under way in this thread. The child of a fork has a copy.
struct Birth {
    Birthplace place;
    bool announced = false;   // a wrapper stands around the call
    bool registered = false;  // in the child: done, by the atfork handler
};
extern thread_local constinit Birth birth;

// The atfork handler: runs in a child before the program's own handlers, and for forks inside libc.
void births_in_libc_child();

// Calls a function that forks. It gives the child's pid to the parent, 0 to the child, -1 for an error.
template <class Call>
std::int32_t announced_birth(Call call) {
    if (region() == nullptr || !speaks_by_its_own_ids()) return call();
    const Birth before = birth;  // a signal handler may fork while its thread is in fork
    const Birthplace place = claim_birth(*region(), raw::pid());
    birth = {.place = place, .announced = true, .registered = false};
    const KernelId pid(call());
    const bool in_child = pid == KernelId(0);
    if (in_child && !birth.registered) register_child(place);
    birth = before;
    return in_child ? 0 : end_birth(place, pid).number();
}

}  // namespace cairn::hijack
