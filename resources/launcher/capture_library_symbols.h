// Where a shared library of a process has its exported variables.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/program_address.h"

namespace cairn::capture {

struct LibrarySymbol {
    ProgramAddress address;
    std::uint64_t size = 0;
};
using LibrarySymbols = std::map<std::string, LibrarySymbol, std::less<>>;

// Those of `names` that the library exports whose file name begins with `library` ("libpmix.so"); read from
// its file (elf(5), .dynsym). Empty if the process has no such library. Errors: its file isn't there any
// more, or can't be read, or is no ELF file of this machine.
[[nodiscard]] Result<LibrarySymbols> library_symbols(pid_t pid, std::string_view library,
                                                     std::span<const std::string_view> names);

}  // namespace cairn::capture
