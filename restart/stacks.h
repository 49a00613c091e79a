// What an image has of the stacks of its threads.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "common/error.h"
#include "common/image/page_reader.h"
#include "common/ptrace/thread.h"
#include "common/schema/process.h"

namespace cairn::restart {

// None: the thread had ended.
[[nodiscard]] std::optional<ptrace::Registers> registers_of(const schema::Thread& thread);

// A run of pages, and where in it the stack in use begins. The run begins at a page's start.
using LookAtStack = std::function<bool(std::span<const std::byte> bytes, std::size_t first)>;

// Does `look` find something from the thread's stack pointer up, in the memory that has it? `pages`: of the
// process's image.
[[nodiscard]] Result<bool> on_stack(const schema::Process& process, const schema::Thread& thread,
                                    PageReader& pages, const LookAtStack& look);

}  // namespace cairn::restart
