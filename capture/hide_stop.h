// What a stop leaves behind in a thread's registers that the program must not notice. Done before anything is
// read, so that the program that goes on and the image agree.
#pragma once

#include "capture/group.h"

namespace cairn::capture {

// - A restartable sequence is sent to its abort address: the kernel would have done so on the way back, but
// will see the
//   agent's address instead.
// - A blocking write, send, or recv with MSG_WAITALL that had moved some bytes and was then cut short
// (signal(7): a call
//   that has transferred something returns the count) goes on in the hijack library for the rest.
// - A call that the stop interrupted with EINTR is to be restarted.
// - A connect whose connection is there by now has returned.
// - How much is left of a relative timeout is noted.
// AgentFollows::yes: one enters every thread now, and puts its registers back. Where the kernel would go on
// by a restart block, which the program doesn't notice, they aren't set before.
enum class AgentFollows : bool { no, yes };
void hide_stop(StoppedProcess& process, AgentFollows agent = AgentFollows::no);

}  // namespace cairn::capture
