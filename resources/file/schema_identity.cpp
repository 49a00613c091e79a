#include "resources/file/schema_identity.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/image/hash.h"

namespace cairn {

schema::FileIdentity identity_of(const struct stat& status) {
    schema::FileIdentity identity;
    identity.device = status.st_dev;
    identity.inode = status.st_ino;
    identity.size = static_cast<std::uint64_t>(status.st_size);
    identity.mtime_ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
    identity.mode = status.st_mode;
    identity.rdev = status.st_rdev;
    return identity;
}

std::uint64_t tail_hash(int fd, std::uint64_t size) {
    std::vector<std::uint8_t> tail(std::min(size, tail_bytes));
    std::uint64_t done = 0;
    while (done < tail.size()) {
        const auto at = static_cast<off_t>(size - tail.size() + done);
        const ssize_t got = ::pread(fd, tail.data() + done, tail.size() - done, at);
        if (got <= 0) return 0;
        done += static_cast<std::uint64_t>(got);
    }
    return std::max<std::uint64_t>(hash64(tail), 1);
}

bool same_inode(const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace cairn
