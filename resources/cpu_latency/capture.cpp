// /dev/cpu_dma_latency: the kernel tells the strictest request of the whole machine, and of no description
// its own one. To find that out by writing is no way: what was there before couldn't be written back. So each
// description that may be written to is saved with the strictest request. One that is stricter than the
// program's own costs power, and one that is lost costs what the program has asked for.
#include <fcntl.h>
#include <unistd.h>

#include "common/proc.h"
#include "resources/capture/table.h"
#include "resources/cpu_latency/schema_device.h"

namespace cairn::capture {
namespace {

// Those that may have made the strictest request.
struct LatencyRequests {
    std::string first;  // its who()
    std::string path;
    std::int32_t microseconds = 0;
    bool several = false;
};

// Of a member, or of the programs that it has started since the checkpoint.
bool is_of_group(const Table& table, pid_t process) {
    while (process > 0 && !table.members.contains(process)) {
        const auto stat = proc::stat(process);
        if (!stat) return false;
        process = stat->ppid;
    }
    return process > 0;
}

// "123 (tuned)": a process outside of the group that may have made a request; "" if none can be seen. Its
// descriptors are known by their links alone: stat(2) of a stranger's file may wait for a server for ever.
std::string find_request_outside(const Table& table, const std::string& path) {
    for (const pid_t process : proc::processes()) {
        const Holder holder{.pid = process};
        const auto numbers = list_descriptors(holder);
        if (!numbers) continue;  // of another user, or gone
        for (const ProgramFd number : *numbers) {
            const std::string link = fmt::format("{}fd/{}", proc_folder(holder), number);
            struct stat status {};
            // The link's own mode tells how it is open: proc_pid_fd(5).
            if (read_link(link).value_or("") == path && ::lstat(link.c_str(), &status) == 0 &&
                (status.st_mode & S_IWUSR) != 0 && !is_of_group(table, process))
                return name_of(holder);
        }
    }
    return {};
}

}  // namespace

bool is_cpu_latency(const Looked& it) {
    return it.opened(S_IFCHR) && is_cpu_latency_device(it.found.status);
}

Result<> describe_cpu_latency(Table& table, const Description& found, schema::Object& object) {
    object.path = found.link;
    object.position = static_cast<std::int64_t>(info_number(found.info, "pos"));
    auto& saved = object.what.emplace<schema::CpuLatency>();
    // By a description of our own, for the program's may be one that can't be read. Its request, which is
    // none at first, changes nothing for the processors.
    const bool asks = (found.flags & O_ACCMODE) != O_RDONLY;
    const Fd other = reopen(found.fd(), asks ? O_RDWR : O_RDONLY);
    if (!other && (errno == EPERM || errno == EACCES))
        return fail_code(
            ExitCode::refused,
            "is a request for processors that wake up soon ({}), which you may not open, and so a restart "
            "couldn't either: take the checkpoint as root, give yourself the right (setfacl, a rule of "
            "udev's), or close it before a checkpoint",
            found.link);
    if (!other) return fail_errno("{} can't be opened", found.link);
    std::int32_t strictest = 0;
    if (::pread(other.get(), &strictest, sizeof strictest, 0) != sizeof strictest)
        return fail_errno("{} can't be read", found.link);
    if (!asks || strictest >= no_cpu_latency_request) return {};
    saved.request = strictest;
    auto& requests = table.of<LatencyRequests>();
    if (requests.first.empty())
        requests = {.first = found.who(), .path = found.link, .microseconds = strictest};
    else
        requests.several = true;
    return {};
}

// A request that a driver of the kernel's has made (of a sound card) is seen by nobody.
Result<> finish_cpu_latencies(Table& table) {
    const auto& requests = table.of<LatencyRequests>();
    if (requests.first.empty()) return {};
    const std::string outside = find_request_outside(table, requests.path);
    if (!requests.several && outside.empty()) return {};
    const std::string others =
        fmt::format("{}{}{}", requests.several ? "other descriptions of the group" : "",
                    requests.several && !outside.empty() ? " and " : "",
                    outside.empty() ? "" : outside + ", which is outside");
    table.note(
        "{} may have asked by {} for processors that wake up soon, and so may {}: the kernel tells only the "
        "strictest request, {} us, and a restart makes this one",
        requests.first, requests.path, others, requests.microseconds);
    return {};
}

}  // namespace cairn::capture
