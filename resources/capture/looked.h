// What tells of which kind a description is.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

#include <string>

#include "resources/capture/description.h"

namespace cairn::capture {

struct Looked {
    const Description& found;
    std::string name;                            // the kernel's, of what has no file: "eventfd"
    int domain = -1, style = -1, protocol = -1;  // of a socket

    explicit Looked(const Description& description);
    [[nodiscard]] bool internet() const { return domain == AF_INET || domain == AF_INET6; }
    [[nodiscard]] bool is_device(unsigned number, unsigned second) const {
        return major(found.status.st_rdev) == number && minor(found.status.st_rdev) == second;
    }
    [[nodiscard]] bool opened(mode_t format) const { return found.is(format) && !(found.flags & O_PATH); }
};

}  // namespace cairn::capture
