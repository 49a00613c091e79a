// Duplicates of the descriptors of a process that stands still: taken from it (pidfd_getfd(2)), or sent by it
// where that is forbidden.
#pragma once

#include <span>
#include <vector>

#include "resources/capture/objects.h"

namespace cairn::capture {

using Borrow = decltype(ObjectOptions::borrow);

// One after the other, in their order: there may be more of them than we may have at once.
class Taking {
  public:
    // All are borrowed.
    Taking(const Borrow& borrow, const Holder& holder, std::span<const ProgramFd> numbers)
        : borrow_(&borrow), holder_(&holder), left_(numbers) {}
    [[nodiscard]] Result<Fd> next();

  private:
    const Borrow* borrow_;
    const Holder* holder_;
    std::span<const ProgramFd> left_;
    std::vector<Fd> sent_;  // the next one is at the end
};

}  // namespace cairn::capture
