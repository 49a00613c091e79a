// Unwinds stacks out of copies: of a checkpoint's threads, or of threads that stood still for a moment.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <functional>
#include <string>
#include <vector>

#include "cli/inspect_stacks.h"
#include "common/error.h"
#include "common/python/frames.h"

namespace cairn::stacks {

// An ELF file that the process has mapped, or what the kernel has mapped as one.
struct Module {
    ProgramAddress start{};  // where its first byte is mapped
    std::string name{};      // as the process calls it
    std::string path{};      // where we can open it; "": `bytes` are all of it
    std::string head{};      // its first 4096 bytes, or all that there are
    std::string bytes{};
};

// What is to be added to the file's addresses.
[[nodiscard]] std::uint64_t load_bias(const Module& module);

struct Registers {
    pid_t tid = 0;
    user_regs_struct values{};
};

struct Subject {
    pid_t pid = 0;
    std::vector<Module> modules{};
    std::vector<Registers> threads{};
    // Bytes of the process's memory, fewer where the rest isn't known. An error ends it all.
    std::function<Result<std::string>(ProgramAddress, std::size_t)> read{};
    // What they have in Python, in any order.
    std::vector<python::Thread> python{};
};

struct Unwound {
    pid_t tid = 0;
    std::vector<inspect::Frame> frames{};
    std::string broken{};  // why it doesn't go on; "" it is whole
};

// In the order of the threads; who can't be unwound at all may be missing. Errors: that of Subject::read;
// ExitCode::refused where this cairn was built without libdw.
[[nodiscard]] Result<std::vector<Unwound>> unwind(const Subject& subject);

}  // namespace cairn::stacks
