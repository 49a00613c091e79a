// Where a siginfo_t names the process that sent it.
#pragma once

#include <signal.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace cairn {

// Replaces the sender's pid in the 128 bytes of a siginfo_t where it has one (sigaction(2)). `translate`:
// From -> the other kind of id.
template <class From, class Translate>
void translate_sender(std::vector<std::uint8_t>& bytes, const Translate& translate) {
    siginfo_t info;
    if (bytes.size() < sizeof info) return;
    std::memcpy(&info, bytes.data(), sizeof info);
    const bool from_process = info.si_code == SI_USER || info.si_code == SI_QUEUE ||
                              info.si_code == SI_TKILL || info.si_code == SI_MESGQ ||
                              (info.si_signo == SIGCHLD && info.si_code > 0);
    if (!from_process || info.si_pid == 0) return;
    info.si_pid = translate(From(info.si_pid)).number();
    std::memcpy(bytes.data(), &info, sizeof info);
}

}  // namespace cairn
