// What an image says of a pidfd_open(2).
#pragma once

#include <optional>

#include "common/ids.h"
#include "common/schema/field.h"

namespace cairn::schema {

struct Pidfd {
    static constexpr std::string_view kind = "pidfd";
    ProgramId pid;                  // 0: of a process that had gone
    std::optional<bool> of_thread;  // `pid` is a thread's, and not the main thread's (PIDFD_THREAD)
};

template <Struct<Pidfd> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(pid, 0, INT32_MAX);
    CAIRN_FIELD(of_thread);
}

}  // namespace cairn::schema
