#include "restart/protections.h"

#include <fmt/format.h>
#include <linux/prctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "common/protections.h"

namespace cairn::restart {
namespace {

bool try_to_gain_execution() {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return true;  // whatever is wrong, it is something else
    const bool may = ::mprotect(memory, page, PROT_READ | PROT_EXEC) == 0;
    ::munmap(memory, page);
    return may;
}

}  // namespace

bool knows_mseal() {
    static const bool knows = ::syscall(mseal_call, 0, 0, 0) == 0;
    return knows;
}

bool knows_mdwe() {
    static const bool knows = ::prctl(get_mdwe, 0, 0, 0, 0) >= 0;
    return knows;
}

namespace {

bool is_sealed(const schema::Area& area) {
    return area.sealed.value_or(false);
}

// It would be written to, and then made executable.
bool gains_execution(const schema::Area& area) {
    return (area.prot & PROT_EXEC) != 0 && area.kind != schema::AreaKind::vdso &&
           ((area.prot & PROT_WRITE) != 0 || !area.pages.empty() || area.borrowed.has_value());
}

}  // namespace

const OwnProtections& own_protections() {
    static const OwnProtections own = [] {
        OwnProtections found;
        if (const int flags = ::prctl(get_mdwe, 0, 0, 0, 0); flags > 0)
            found.deny_write_execute = static_cast<std::uint32_t>(flags);
        found.may_gain_execution = try_to_gain_execution();
        if (const auto status = proc::status(::getpid(), ::gettid()))
            found.speculation = speculation_of(*status);
        return found;
    }();
    return own;
}

std::int32_t speculation_to_set(std::optional<std::int32_t> own, std::optional<std::int32_t> wanted) {
    if (own == wanted || own == PR_SPEC_FORCE_DISABLE) return 0;
    return wanted.value_or(PR_SPEC_ENABLE);
}

Result<> refuse_gain_of_execution(const Computation& computation) {
    if (own_protections().may_gain_execution) return {};
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        const auto area = std::ranges::find_if(process.areas, gains_execution);
        if (area != process.areas.end())
            return fail_code(
                ExitCode::refused,
                "process {} ({}) has executable memory at {:#x} that isn't a file's (a just-in-time "
                "compiler's), which can't be made where memory may not become executable: restart "
                "it where neither systemd's MemoryDenyWriteExecute= nor PR_SET_MDWE holds",
                process.pid, process.name, area->start);
    }
    return {};
}

void note_protections(const Computation& computation, std::vector<std::string>& notes) {
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        if (std::ranges::any_of(process.areas, is_sealed) && !knows_mseal())
            notes.push_back(
                fmt::format("{} ({}) had sealed memory (mseal(2), Linux 6.10), and hasn't any more",
                            process.pid, process.name));
        if (process.deny_write_execute && !knows_mdwe())
            notes.push_back(
                fmt::format("{} ({}) had its memory kept from becoming executable (PR_SET_MDWE, "
                            "Linux 6.3), and hasn't any more",
                            process.pid, process.name));
    }
}

}  // namespace cairn::restart
