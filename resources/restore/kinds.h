// What a restart does for each kind of object; kinds.cpp has a line for each.
#pragma once

#include <set>

#include "common/proc.h"
#include "resources/restore/opening.h"

namespace cairn::restart {

// Opens all objects, one kind after the other.
[[nodiscard]] Result<> open_kinds(Opening& opening);

// When the processes are there.
struct AfterForest {
    const ObjectSetOptions& options;
    const proc::ClockOffsets& ahead;  // what the programs' clocks show more than the tool's
    std::vector<std::string>& notes;
    std::set<std::int64_t> terminals;  // set up already, by TerminalState::pair
};
[[nodiscard]] Result<> set_up_kind(const schema::Object& object, int fd, AfterForest& after);

// Does it watch others? Then it begins last of all.
[[nodiscard]] bool is_watcher(const schema::Object& object);
[[nodiscard]] Result<> begin_watching(const schema::Object& object, int fd, const ObjectSetOptions& options,
                                      const std::function<int(std::int64_t object)>& fd_of);

}  // namespace cairn::restart
