// After a restart with virtual ids the kernel shows processes by numbers of its own (docs/hijack.md, "Virtual
// ids"): a look is written down in those by which the programs call each other, so that it can be compared
// with the looks before.
#pragma once

#include <memory>
#include <string>

#include "common/ids.h"
#include "witness/facts.h"

namespace cairn {
struct Region;
}

namespace cairn::witness {

class Ids {
  public:
    // `region`: path of a session's file of that name, of which nothing but the map of ids is read.
    [[nodiscard]] static Result<Ids> of_region(const std::string& region);

    [[nodiscard]] ProgramId named(KernelId id) const;
    [[nodiscard]] bool are_the_kernels() const;

  private:
    explicit Ids(std::shared_ptr<const Region> region) : region_(std::move(region)) {}

    std::shared_ptr<const Region> region_;
};

// With all ids in names and values as the programs know them; the rest as it is.
[[nodiscard]] Facts translated(const Facts& facts, const Ids& ids);

}  // namespace cairn::witness
