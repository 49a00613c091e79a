// The functions of Python that threads of CPython are in, read out of a process's memory: a living one's, or
// a checkpoint's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/program_address.h"

namespace cairn::python {

// Which CPython a process has, and where in its memory its state begins: the symbol _PyRuntime.
struct Interpreter {
    unsigned minor = 0;  // of 3.minor
    ProgramAddress runtime{};
};

struct Frame {
    std::string function{}, file{};  // in UTF-8
    int line = 0;                    // 0: none
    // The interpreter's own C function has been called for it; of the others the same call goes on.
    bool entry = false;
};

struct Thread {
    std::uint64_t fs_base = 0;    // of its registers: pthread_self() is the address that it has there
    std::vector<Frame> frames{};  // the innermost first
    bool cut = false;             // there are more than these
};

// What is taken of a process at most: whatever its memory says, it can't keep who reads it for long.
struct Most {
    std::size_t functions = 0;  // of each thread
    std::size_t reads = 0;      // of its memory, or pages of it; a function takes one to four, a thread three
};

// All of these bytes, or false.
using Read = std::function<bool(ProgramAddress, std::span<std::byte>)>;

// Python 3.7 to 3.13, without free threading.
[[nodiscard]] bool is_known(unsigned minor);

// What can't be read, or isn't what it should be, is left out: a process may be stopped in the middle of a
// change. No errors.
[[nodiscard]] std::vector<Thread> threads_of(const Interpreter& interpreter, Most most, const Read& read);

}  // namespace cairn::python
