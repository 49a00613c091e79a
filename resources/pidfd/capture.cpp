// pidfd_open(2): /proc/PID/fdinfo/N tells the process (proc(5)).
#include <fcntl.h>

#include <csignal>

#include "resources/capture/table.h"

namespace cairn::capture {
namespace {

struct PidfdsFound {
    std::vector<std::pair<std::int64_t, KernelId>> all;  // by object: the process
};

}  // namespace

Result<> describe_pidfd(Table& table, const Description& found, schema::Object& object) {
    // -1: the process has gone and was waited for.
    const auto field = info_field(found.info, "Pid");
    const bool gone = !field || field->starts_with('-');
    const KernelId pid(gone ? 0 : static_cast<std::int32_t>(info_number(found.info, "Pid")));
    schema::Pidfd saved{table.to_program(pid), {}};
    KernelId process = pid;
    // PIDFD_THREAD, since Linux 6.9.
    if (!gone && (found.flags & O_EXCL) != 0) {
        const auto status = read_text(fmt::format("/proc/{}/status", pid));
        if (status) process = KernelId(static_cast<std::int32_t>(info_number(*status, "Tgid")));
        if (process != pid) saved.of_thread = true;
    }
    table.of<PidfdsFound>().all.emplace_back(object.id, process);
    object.what = saved;
    return {};
}

Result<> capture_pidfds(Table& table) {
    for (const auto& [id, pid] : table.of<PidfdsFound>().all) {
        if (!pid.known() || table.members.contains(pid.number())) continue;
        table.objects[static_cast<std::size_t>(id)].outside = true;
        table.note(
            "a pidfd of process {}, which is no member of the group, will be that of a process that has gone",
            pid);
    }
    return {};
}

}  // namespace cairn::capture
