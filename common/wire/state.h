// What a coordinator leaves to the next one of its session beside the region: the file state.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/wire/field.h"

namespace cairn::wire {

struct SavedState {
    static constexpr Name name{"", ""};
    std::string cid = "?", external{}, landlock{}, ckptdir{}, files{}, with{}, compress{};
    std::int64_t interval_ms = 0;
    std::optional<std::uint32_t> keep{};
    bool self_contained = false, track_mem = false;
    Json last{};  // the newest checkpoint's `done`, or null
};
template <Struct<SavedState> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(cid);
    CAIRN_FIELD_OR(interval_ms);
    CAIRN_FIELD(keep);
    CAIRN_FIELD_OR(self_contained);
    CAIRN_FIELD_OR(track_mem);
    CAIRN_FIELD_OR(external);
    CAIRN_FIELD_OR(landlock);
    CAIRN_FIELD_OR(ckptdir);
    CAIRN_FIELD_OR(files);
    CAIRN_FIELD_OR(with);
    CAIRN_FIELD_OR(compress);
    CAIRN_FIELD_OR(last);
}

}  // namespace cairn::wire
