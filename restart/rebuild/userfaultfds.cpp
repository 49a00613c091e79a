#include "restart/rebuild/userfaultfds.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstring>

namespace cairn::restart {
namespace {

// Newer than Debian 12's headers: linux/mman.h of 5.14.
constexpr int populate_for_reading = 22;
// linux/userfaultfd.h of 5.11 and 5.7.
constexpr int user_mode_only = 1;
struct ProtectRequest {
    uffdio_range range;
    std::uint64_t mode;
};
constexpr unsigned long write_protect = _IOWR(UFFDIO, 0x06, ProtectRequest);
constexpr std::uint64_t protect_pages = 1;

// All that was there is there, be it of zeros, which are in no image; and nothing else is: a huge page that
// the kernel has given for one small one would have brought its neighbours. A missing page stays the
// program's to give.
Result<> set_pages(const Hand& owner, const schema::WatchedRange& range) {
    for (const auto& [start, length] : range.present) {
        const auto made =
            owner.call("MADV_POPULATE_READ", SYS_madvise, start.value(), length, populate_for_reading);
        if (!made && made.error().number != EINVAL)
            return std::unexpected(made.error());  // before Linux 5.14
    }
    auto from = range.start;
    const auto drop = [&](ProgramAddress to) -> Result<> {
        if (from >= to) return {};
        const auto done = owner.call("MADV_DONTNEED", SYS_madvise, from.value(), to - from, MADV_DONTNEED);
        if (!done && done.error().number != EINVAL)
            return std::unexpected(done.error());  // locked: all is there
        return {};
    };
    for (const auto& [start, length] : range.present) {
        CHECK_OK(drop(start));
        from = start + length;
    }
    return drop(range.start + range.length);
}

// Who may have one for faults of the kernel's, too, gets one: nothing tells what it was.
Result<int> create(const Hand& owner, const schema::Object& object) {
    const int flags = O_CLOEXEC | (object.flags & O_NONBLOCK);
    auto made = owner.call("userfaultfd", SYS_userfaultfd, flags);
    if (!made && made.error().number == EPERM)
        made = owner.call("userfaultfd", SYS_userfaultfd, flags | user_mode_only);
    return made;
}

Result<> begin(const Hand& owner, int fd, const schema::Userfaultfd& saved) {
    const uffdio_api api = {UFFD_API, saved.features, 0};
    auto done = owner.call("UFFDIO_API", SYS_ioctl, fd, UFFDIO_API, TRY(owner.put(api)));
    if (done) return {};
    done.error().code = ExitCode::refused;
    return std::unexpected(
        std::move(done.error())
            .in(fmt::format("this kernel, or this user, can't have a userfaultfd with the features {:#x}",
                            saved.features)));
}

}  // namespace

Result<int> make_userfaultfd(const Hand& owner, const schema::Object& object,
                             const schema::Userfaultfd& saved) {
    const int fd = TRY(create(owner, object));
    if (!saved.begun) return fd;
    CHECK_OK(begin(owner, fd, saved));
    for (const auto& range : saved.ranges) {
        CHECK_OK(set_pages(owner, range));
        const uffdio_register request = {{range.start.value(), range.length}, range.modes, 0};
        CHECK_OK(owner.call("UFFDIO_REGISTER", SYS_ioctl, fd, UFFDIO_REGISTER, TRY(owner.put(request))));
        for (const auto& [start, length] : range.write_protected) {
            const ProtectRequest protect = {{start.value(), length}, protect_pages};
            CHECK_OK(
                owner.call("UFFDIO_WRITEPROTECT", SYS_ioctl, fd, write_protect, TRY(owner.put(protect))));
        }
    }
    return fd;
}

}  // namespace cairn::restart
