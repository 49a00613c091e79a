// Which container runtime has started us, and how it is told to allow something.
#pragma once

#include <string>
#include <string_view>

namespace cairn::doctor {

enum class Runtime { none, podman, docker, nspawn, kubernetes, other };

// By the files and variables that the runtimes leave for this purpose.
[[nodiscard]] Runtime runtime_here();
// "podman"; "" for none.
[[nodiscard]] std::string_view name_of(Runtime runtime);

// What is to be said to the runtime, so that the container has these capabilities ("SYS_PTRACE SYS_ADMIN"),
// as a command line or a setting; those that it has already are left out, unless it has all of them.
[[nodiscard]] std::string add_capabilities(Runtime runtime, std::string_view names);
// The same for a system call that no capability brings.
[[nodiscard]] std::string allow_call(Runtime runtime, std::string_view call);
// The same for one that most runtimes' filters have for who has a capability.
[[nodiscard]] std::string allow_call(Runtime runtime, std::string_view call, std::string_view capability);

}  // namespace cairn::doctor
