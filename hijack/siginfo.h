// Who sent a signal, by the id that the program knows.
#pragma once

#include <signal.h>

#include "hijack/ids.h"

namespace cairn::hijack {

// Does a siginfo with this signal and code name a process (sigaction(2))?
inline bool names_sender(int signal, int code) {
    switch (code) {
        case SI_USER:
        case SI_QUEUE:
        case SI_TKILL:
        case SI_MESGQ:
        case SI_ASYNCIO:
            return true;
        default:
            return signal == SIGCHLD && code > 0 && code <= CLD_CONTINUED;
    }
}

inline void translate_sender(siginfo_t* info) {
    if (info != nullptr && ids_are_virtual() && names_sender(info->si_signo, info->si_code))
        info->si_pid = virtual_id(info->si_pid);
}

}  // namespace cairn::hijack
