// `cairn launch` and `cairn restart` as the first process of a container.
#pragma once

namespace cairn::cli {

// Returns at once in every other process. In the first one it returns in a child, which goes on in its place;
// the first process stays what a container needs there: it reaps orphans, hands signals on to the child, and
// ends as the child does, and the container with it. Were the program the first process it would ignore
// signals that it has no handler for, would find children in wait(2) that it never had (the coordinator is
// one), and couldn't be what it was after a restart in a container that has another first process.
void leave_first_process();

}  // namespace cairn::cli
