// Another environment for a restored program, as getenv(3) sees it: `cairn restart --env`, `--unset`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/schema/process.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

struct EnvironmentChange {
    std::string name;
    std::string text;  // NAME=VALUE; "": the variable is taken out
};

// NAME=VALUE of --env, NAME of --unset. What keeps a program in its session isn't to be changed.
[[nodiscard]] Result<EnvironmentChange> read_change(std::string_view text, bool unset);

// `entries` with the changes: which of them stay (indexes), then what is put in. Where a name is there twice,
// the first is what getenv finds: all of that name go. The last change of a name counts.
struct ChangedEnvironment {
    std::vector<std::size_t> stay;
    std::vector<std::string> put;
};
[[nodiscard]] ChangedEnvironment change(std::span<const std::string> entries,
                                        std::span<const EnvironmentChange> changes);

// Where a process can't be reached: without the hijack library nobody knows where its libc's `environ` is.
[[nodiscard]] Result<> may_change_environment(const schema::Process& process);

// To be called before the restorer is unmapped and before filters are installed.
[[nodiscard]] Result<> change_environment(const Rebuilding& rebuilding,
                                          std::span<const EnvironmentChange> changes);

}  // namespace cairn::restart
