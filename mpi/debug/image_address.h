// Where a rank that comes back from an image and its debugger find each other: a socket without a file, whose
// name nobody guesses. Both sides ask the kernel which user the other one is.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace cairn::mpi::debug {

// Returns the address's length.
inline socklen_t image_address(sockaddr_un& address, std::uint64_t first, std::uint64_t second) {
    address = {};
    address.sun_family = AF_UNIX;
    // Behind a zero byte: of no file.
    const int length =
        std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "cairn-mpi-image-%016llx%016llx",
                      static_cast<unsigned long long>(first), static_cast<unsigned long long>(second));
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
}

}  // namespace cairn::mpi::debug
