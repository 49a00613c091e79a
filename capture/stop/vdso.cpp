// Whether a thread that has stopped stands in the vdso.
#include "common/vdso.h"

#include <algorithm>
#include <array>

#include "capture/stop/stopping.h"

namespace cairn::capture {

namespace {

constexpr std::uint64_t page = 4096;

}  // namespace

// /proc/PID/maps would tell, too, but takes a hundred times as long, and nearly no thread is there: so it is
// looked whether what lies around its program counter begins as the vdso does.
bool VdsoPages::holds(const SeizedThread& thread) {
    const auto own = running_vdso();
    const auto registers = ptrace::registers(thread.tid);
    std::array<std::byte, 64> head{};  // the ELF header: no other object has the same
    if (!registers || own.size() < head.size()) return false;
    const ProgramAddress at(registers->rip);
    const auto in = at - at % page;
    if (elsewhere_ == std::pair(thread.pid, in)) return false;
    for (std::uint64_t before = 0; before < own.size() && before <= at.value(); before += page) {
        if (!ptrace::read_memory(thread.tid, in - before, head)) return false;
        if (std::ranges::equal(head, own.first(head.size()))) return true;
    }
    elsewhere_ = {thread.pid, in};
    return false;
}

}  // namespace cairn::capture
