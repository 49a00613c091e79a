// The places in the session's tables of processes that a restart has taken for its own.
#pragma once

#include <cstdint>
#include <map>

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
        all_[process] = {&region, index, region.slots[index].pid.load()};
        return true;
    }
    [[nodiscard]] std::int32_t of(ProgramId process) const { return all_.at(process).index; }
    // Those that the coordinator hasn't been told of. From then on they are its own to give back: when it is
    // our turn, because the restart has failed since, its processes may have gone, and others may have the
    // places.
    void release() {
        for (const auto& [process, place] : all_) {
            const Slot& slot = place.region->slots[place.index];
            if (slot.state.load() == SlotState::birth && slot.pid.load() == place.token)
                release_slot(*place.region, place.index);
        }
    }

  private:
    struct Claimed {
        Region* region = nullptr;
        std::int32_t index = no_slot;
        std::int32_t token = 0;  // Slot::pid until somebody has it
    };
    std::map<ProgramId, Claimed> all_;
};

}  // namespace cairn::restart
