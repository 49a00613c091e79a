// A rank under `cairn mpi debug`: it runs alone from event to event, stands still where it is told to, and
// forks copies of itself that stand still as checkpoints (mpi/debug/wire.h). What is done here while it
// stands takes no memory from the program's heap, so that a process that was stopped and copied on its way is
// the same as one that ran straight.
#pragma once

#include <string>

namespace cairn::mpi {

// Takes the socket from the environment, if there is one, and stands before the first event.
void start_standing();
extern bool standing_alone;  // there is one

// Behind each call: stands here if the debugger wants it, takes a checkpoint if it is time.
void stand_behind();
// Within a call, between two of its events or before it is given what others have sent. Only where an event
// of this call is still to come: behind its last one the next event is another call's, and to stand "in the
// call of the next event" would be one state for who has run up to here, and another for who goes on from
// behind this call.
void stand_within_call();
inline void stand_within() {
    if (standing_alone) [[unlikely]]
        stand_within_call();
}
// There is no way on from here.
[[noreturn]] void stand_at_end();
[[noreturn]] void stand_at_cut();
[[noreturn]] void stand_departed();

// What would be printed goes along with the next report.
void tell_debugger(const std::string& text);

// In a call that hasn't returned: lines "in CALL", then "for RANK", "any RANK" or "collective COMMUNICATOR".
[[nodiscard]] std::string what_is_waited_for();

// In a copy: open files get descriptions of their own, with the positions that they have now.
void reopen_files();

}  // namespace cairn::mpi
