// What a restart demands of the processes of a checkpoint, beyond what any image must be (reader.h). A
// capture asks the same before it publishes anything: what can't be restarted isn't called a checkpoint.
#pragma once

#include <span>

#include "common/error.h"
#include "common/schema/process.h"
#include "resources/schema/object.h"

namespace cairn {

// `processes`: of one part or more, with those zombies that belong to them. Errors name process and thread.
[[nodiscard]] Result<> check_demands(std::span<const schema::Process* const> processes,
                                     const schema::Objects& objects);

}  // namespace cairn
