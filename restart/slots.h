// The places in the session's tables of processes that a restart has taken for its own.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "common/program_address.h"
#include "common/region.h"
#include "common/region_ops.h"

namespace cairn::restart {

class Slots {
  public:
    // `door`: of its library. False: the table is full.
    [[nodiscard]] bool claim(Region& region, ProgramId process, ProgramAddress door) {
        const auto index = claim_slot(region, KernelId());
        if (index == no_slot) return false;
        region.slots[index].door.store(door.value());
        all_[process] = {&region, index};
        return true;
    }
    [[nodiscard]] std::int32_t of(ProgramId process) const { return all_.at(process).second; }
    void release() {
        for (const auto& [process, slot] : all_) release_slot(*slot.first, slot.second);
    }

  private:
    std::map<ProgramId, std::pair<Region*, std::int32_t>> all_;
};

}  // namespace cairn::restart
