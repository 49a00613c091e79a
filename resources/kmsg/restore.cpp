// The kernel's log: opened again, and its readers brought to the record that is their next.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "resources/kmsg/schema_log.h"
#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

constexpr const char* usual_path_of_log = "/dev/kmsg";

bool is_log(const struct stat& status) {
    return S_ISCHR(status.st_mode) && major(status.st_rdev) == 1 && minor(status.st_rdev) == 11;
}

// Why the kernel (or the device's mode) doesn't let it be opened, and what to do.
std::unexpected<Error> refuse_log(const std::string& path, int access) {
    return fail_code(ExitCode::refused, "{} may not be opened for {}: {}", path,
                     access == O_RDONLY   ? "reading"
                     : access == O_WRONLY ? "writing"
                                          : "reading and writing",
                     access == O_RDONLY ? "restart as root, or allow it (sysctl kernel.dmesg_restrict=0)"
                                        : "restart as root, and see that the kernel takes messages (sysctl "
                                          "kernel.printk_devkmsg=ratelimit)");
}

// With the rights of those who had it: an image that somebody else has written gives nobody the log.
Result<Fd> open_log(Opening& opening, const schema::Object& object) {
    const Access& access = opening.options.access;
    std::string path = mapped_path(object.path, opening.options);
    auto found = access.find(object, path);
    if (!found && found.error().number == ENOENT && path != usual_path_of_log)
        found = access.find(object, path = usual_path_of_log);
    if (!found && found.error().number == ENOENT)
        return fail_code(ExitCode::refused, "there is no {} here", path);
    if (!found) return std::unexpected(std::move(found.error()));
    if (!is_log(found->status))
        return fail_code(ExitCode::refused,
                         "{} is not the kernel's log (character device 1:11), which a restored program had "
                         "open",
                         path);
    const int mode = object.flags & O_ACCMODE;
    auto opened = access.open(object, path, *found, mode | O_NONBLOCK | O_CLOEXEC);
    if (!opened && opened.error().code != ExitCode::refused &&
        (opened.error().number == EPERM || opened.error().number == EACCES))
        return refuse_log(path, mode);
    return opened;
}

}  // namespace

Result<Fd> open_kmsg(Opening& opening, const schema::Object& object, const schema::Kmsg& saved) {
    auto log = TRY(open_log(opening, object));
    if (!saved.position || (object.flags & O_ACCMODE) == O_WRONLY) return log;
    const auto& [boot, next] = *saved.position;
    if (TRY(boot_of_log()) != boot) {
        // It is at the oldest record, as every new description is.
        opening.note(
            "{}: the machine was booted since the checkpoint, or is another one: who reads the kernel's log "
            "goes on with the first record of this boot",
            object.path);
        return log;
    }
    const Fd other(::open(fd_path(log.get()).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!other) return fail_errno("a second time");
    KernelLog reader(log.get()), scout(other.get());
    switch (go_to(reader, scout, next)) {
        case Arrival::there:
        case Arrival::overwritten:
            break;
        case Arrival::oldest:
            opening.note(
                "{}: the record {}, which its reader wanted next, was overwritten since the checkpoint: it "
                "goes on with the oldest one that is left and isn't told that records are missing (EPIPE), "
                "which can't be had after a `dmesg -C`",
                object.path, next);
            break;
        case Arrival::end:
            // A virtual machine that was put back to what it was before the checkpoint.
            opening.note(
                "{}: the log ends before the record {}, which its reader wanted next: it goes on at "
                "the end",
                object.path, next);
    }
    return log;
}

}  // namespace cairn::restart
