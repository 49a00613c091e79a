// The environment by which a program is taken into a group, or kept out of it.
//
// The static front command links this as well: nothing but the C library and std::string.
#pragma once

#include <string>

namespace cairn {

// Sets LD_PRELOAD (libcairn.so first, what was there before behind it), CAIRN_REGION and CAIRN_LIBRARY.
// `glibc`: false: the program has another libc, whose loader can't load our library, and LD_PRELOAD is left
// without it. "" or why it can't be done.
[[nodiscard]] std::string set_preload(const std::string& library, const std::string& region,
                                      bool glibc = true);

// Takes our part out again, so that the next program of an exec is no member; the rest of LD_PRELOAD stays.
void forget_preload();

}  // namespace cairn
