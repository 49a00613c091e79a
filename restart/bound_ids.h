// The entries of the session's map of virtual ids that a restart has made.
#pragma once

#include <utility>
#include <vector>

#include "common/error.h"
#include "common/region_ops.h"
#include "restart/regions.h"

namespace cairn::restart {

class BoundIds {
  public:
    explicit BoundIds(const Regions& regions) : regions_(&regions) {}

    // The programs know as `old_id` what the kernel calls `new_id`.
    [[nodiscard]] Result<> bind(ProgramId old_id, KernelId new_id) {
        if (!old_id.known() || same_number(old_id, new_id)) return {};
        if (!insert_id(regions_->owners().ids, old_id, new_id)) return fail("the map of virtual ids is full");
        all_.emplace_back(old_id, new_id);
        return {};
    }
    // From all regions: they may have been copied by then (Regions::share_names()).
    void unbind() {
        for (const auto& [old_id, new_id] : all_)
            for (const auto& each : regions_->all()) remove_id(each.region->ids, old_id, new_id);
    }

  private:
    const Regions* regions_;
    std::vector<std::pair<ProgramId, KernelId>> all_;
};

}  // namespace cairn::restart
