// Files of /proc, read whole: of the witness alone, so that it doesn't read wrongly what a capture reads
// wrongly.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::witness {

// Nothing, with errno, if it can't be read.
[[nodiscard]] std::optional<std::string> text_of(const std::string& path);
[[nodiscard]] std::optional<std::string> link_of(const std::string& path);
// The numbers among the names in a folder, in their order.
[[nodiscard]] std::vector<int> numbers_in(const std::string& folder);
// PID and all its living descendants and the zombies among them, in the order of their ids.
[[nodiscard]] std::vector<pid_t> tree_of(pid_t pid);

// A zombie, or a main thread that has ended before others: of the rest of what /proc shows of it nothing has
// a meaning any more. `folder`: /proc/ID.
[[nodiscard]] bool has_ended(const std::string& folder);
// Whether a link leads to a file of proc(5) whose process isn't there any more: "/proc/1234/stat". `folder`:
// /proc/ID of who has it, whose /proc may show other processes.
[[nodiscard]] bool is_of_one_who_has_gone(const std::string& folder, const std::string& link);

}  // namespace cairn::witness
