// Messages over a SOCK_SEQPACKET socket with descriptors beside them (SCM_RIGHTS, unix(7)).
#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>
#include <vector>

#include "common/fd.h"

namespace cairn {

inline constexpr std::size_t most_message_descriptors = 253;  // SCM_MAX_FD of the kernel

// As send(2). At most most_message_descriptors.
[[nodiscard]] ssize_t send_with(int socket, std::string_view text, std::span<const int> descriptors,
                                int flags);

// As recv(2). What came beside the message is added to `descriptors`.
[[nodiscard]] ssize_t receive_with(int socket, std::span<char> to, std::vector<Fd>& descriptors, int flags);

}  // namespace cairn
