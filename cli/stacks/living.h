// Members of a session that live: what their threads wait for, and the stacks that they wait in.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/inspect_stacks.h"
#include "common/client.h"
#include "common/error.h"
#include "common/session.h"
#include "common/wire/events.h"

namespace cairn::stacks {

struct LivingThread {
    inspect::Stack stack;
    KernelId real{};
    std::string state{};   // as in proc(5)
    std::string call{};    // the name of the system call that it sleeps in; "" none
    std::string object{};  // what this call's descriptor is; "" it has none
    int descriptor = -1;
    std::string wait_channel{};
};

struct LivingProcess {
    wire::Process member{};
    std::vector<LivingThread> threads{};  // the main thread first
    std::string problem{};                // why its stacks aren't there, or not all of them
    std::int64_t pause_ns = 0;            // it stood still for no longer than this
};

// The session's processes, or those with these ids (as programs know them). Errors: one of the ids is
// nobody's.
[[nodiscard]] Result<std::vector<wire::Process>> members_of(CoordinatorClient& coordinator,
                                                            const std::vector<std::int32_t>& wanted);

// Looks at one after another; `seen` is told of each as soon as it is known.
[[nodiscard]] Result<> look_at(CoordinatorClient& coordinator, const Session& session,
                               std::vector<wire::Process> members,
                               const std::function<void(LivingProcess)>& seen);

[[nodiscard]] std::string as_text(const LivingProcess& process);
[[nodiscard]] nlohmann::json as_json(const LivingProcess& process);

// "futex", "read of 3 (pipe:[71])", "runs", "stopped".
[[nodiscard]] std::string waits_for(const LivingThread& thread);
// The innermost function that has a name, and where it is in the source; with the first one of Python's
// behind it, or the first outside of the C library, if it is another. "" there is none.
[[nodiscard]] std::string place_of(const LivingThread& thread);
// One line for each process: what its main thread waits for, and where.
[[nodiscard]] std::string waits_table(const std::vector<LivingProcess>& processes);

}  // namespace cairn::stacks
