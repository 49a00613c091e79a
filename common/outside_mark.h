// What a program has in its environment that `cairn outside` has started: it is no part of the computation,
// though it is a child of it.
#pragma once

namespace cairn {

inline constexpr const char* env_outside = "CAIRN_OUTSIDE";
inline constexpr const char* outside_mark = "CAIRN_OUTSIDE=1";

}  // namespace cairn
