// Numbers of calls by which programs protect their memory, which Debian 12's headers haven't yet.
#pragma once

namespace cairn {

// <linux/prctl.h>, Linux 6.3: memory may not become executable that hasn't been, nor be both writable and
// executable (PR_MDWE_REFUSE_EXEC_GAIN). Children and what they execute inherit it, and nothing takes it
// back.
inline constexpr int set_mdwe = 65, get_mdwe = 66;

// pkeys(7), of x86. Key 0 is there from the start.
inline constexpr unsigned protection_key_count = 16;

// mseal(2), Linux 6.10.
inline constexpr long mseal_call = 462;

}  // namespace cairn
