// What /proc/PID/status (or task/TID/status) says: lines of a name, a colon and a value (proc_pid_status(5)).
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace cairn::proc {

// Some sixty lines, of which nobody wants more than a few, and they are read of each thread while everybody
// stands still: so a line is looked for when it is asked for, behind the one that was asked for last.
class Status {
  public:
    explicit Status(std::string text) : text_(std::move(text)) {}

    // Without the blanks in front of it. "": this kernel has no such line.
    [[nodiscard]] std::string operator[](std::string_view name) const;

    // As operator[], with the blanks; good as long as this is.
    [[nodiscard]] std::string_view line(std::string_view name) const;

    // The process's or thread's name as /proc/PID/comm has it, with all that a program may put into it.
    [[nodiscard]] std::string name() const;

  private:
    std::string text_;
    mutable std::size_t behind_last_ = 0;
};

}  // namespace cairn::proc
