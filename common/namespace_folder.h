// The namespaces of a process or thread by their numbers (namespaces(7)).
#pragma once

#include <cstdint>
#include <string>

#include "common/fd.h"

namespace cairn::proc {

// /proc/PID/ns or /proc/PID/task/TID/ns, opened once for all that is read in it: a path costs as much for
// each of its parts as what is read.
class NamespaceFolder {
  public:
    // `process`: the folder above, "/proc/PID".
    explicit NamespaceFolder(const std::string& process);
    // Within the folder above, which is open.
    explicit NamespaceFolder(const Fd& process);

    // The inode number of this one ("net", "pid_for_children", ...). 0: the kernel has none of this name, the
    // process has ended, or may not be looked at. What the link leads to is read, "net:[4026531840]", and not
    // looked at: stat(2) makes an inode of nsfs for each.
    [[nodiscard]] std::uint64_t number_of(const char* name) const;

  private:
    Fd folder_;
};

}  // namespace cairn::proc
