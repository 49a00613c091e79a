// The number of a descriptor in a program's table, as opposed to an int or an Fd (common/fd.h), which are of
// the table of whoever runs this.
//
// Both are small numbers, and a wrong one is nearly always open as well. That is why neither becomes the
// other by itself. They are one number where a process of the tool's becomes the program: what it puts at
// number() is the program's (resources/restore/install.cpp). Structs that code inside the program reads have
// plain numbers.
//
// Messages show the number (common/program_fd_text.h). Needs no allocation and no libstdc++ symbols.
#pragma once

#include <compare>
#include <cstdint>

namespace cairn {

class ProgramFd {
  public:
    constexpr ProgramFd() = default;
    constexpr explicit ProgramFd(std::int32_t number) : number_(number) {}

    [[nodiscard]] constexpr std::int32_t number() const { return number_; }
    // -1 says that there is none.
    [[nodiscard]] constexpr bool known() const { return number_ >= 0; }

    friend constexpr auto operator<=>(const ProgramFd&, const ProgramFd&) = default;

  private:
    std::int32_t number_ = -1;
};

}  // namespace cairn
