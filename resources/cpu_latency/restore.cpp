// /dev/cpu_dma_latency: opened again, and the request written. It is in force from then on until the last
// process that has the description is gone, and so not after a restart that fails.
#include <fcntl.h>
#include <unistd.h>

#include "resources/cpu_latency/schema_device.h"
#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

// With the rights of those who had it: an image that somebody else has written keeps no processor awake.
Result<Fd> open_latency_device(Opening& opening, const schema::Object& object) {
    const Access& access = opening.options.access;
    const std::string path = mapped_path(object.path, opening.options);
    const auto found = access.find(object, path);
    if (!found && found.error().number == ENOENT)
        return fail_code(ExitCode::refused,
                         "there is no {} here, by which a restored program asks for processors that wake up "
                         "soon: give the container the device, or restart on a machine that has it",
                         path);
    if (!found) return std::unexpected(found.error());
    if (!is_cpu_latency_device(found->status))
        return fail_code(ExitCode::refused,
                         "{} is not the device cpu_dma_latency of /proc/misc, which a restored program had "
                         "open",
                         path);
    auto opened = access.open(object, path, *found, (object.flags & O_ACCMODE) | O_CLOEXEC);
    if (!opened && opened.error().code != ExitCode::refused &&
        (opened.error().number == EPERM || opened.error().number == EACCES))
        return fail_code(ExitCode::refused,
                         "{} may not be opened: restart as root, or give yourself the right (setfacl, a rule "
                         "of udev's)",
                         path);
    return opened;
}

}  // namespace

Result<Fd> open_cpu_latency(Opening& opening, const schema::Object& object, const schema::CpuLatency& saved) {
    auto device = TRY(open_latency_device(opening, object));
    if (saved.request &&
        ::write(device.get(), &*saved.request, sizeof *saved.request) != sizeof *saved.request)
        return fail_errno("{}: a request of {} us", object.path, *saved.request);
    // What it tells has four bytes, and lseek(2) leaves the position where it is (noop_llseek).
    char told[4];
    if (object.position < 0 || object.position > static_cast<std::int64_t>(sizeof told))
        return fail_code(ExitCode::damaged, "{}: position {}", object.path, object.position);
    if (object.position > 0 &&
        ::read(device.get(), told, static_cast<std::size_t>(object.position)) != object.position)
        return fail_errno("{}: position {}", object.path, object.position);
    return device;
}

}  // namespace cairn::restart
