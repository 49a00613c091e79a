#include "restart/rebuild/enter.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "common/proc.h"
#include "common/ptrace/remote_call.h"
#include "common/ptrace/thread.h"
#include "restart/old_vdso.h"
#include "restart/rebuild/parameters.h"
#include "restart/rebuild/tracee.h"

extern "C" {
extern const std::uint8_t cairn_restorer_begin[];
extern const std::uint8_t cairn_restorer_end[];
}

namespace cairn::restart {
namespace {

constexpr std::uint64_t page = 4096;

std::uint64_t whole_pages(std::uint64_t size) {
    return (size + page - 1) / page * page;
}

// Of the restorer's code; its parameters lie behind it.
std::uint64_t code_size() {
    return whole_pages(static_cast<std::uint64_t>(cairn_restorer_end - cairn_restorer_begin));
}

// An exec stop lies inside execve: its result would overwrite rax. One step further there is none.
Result<> settle_exec(pid_t pid) {
    CHECK_OK(ptrace::interrupt(pid));
    CHECK_OK(ptrace::resume(pid, 0));
    int status = 0;
    if (::waitpid(pid, &status, __WALL) != pid) return fail_errno("waiting for {}", pid);
    if (!WIFSTOPPED(status)) return fail("process {} died after its exec (status {:#x})", pid, status);
    return {};
}

// A place that neither the image nor the fresh program uses, nor what is `taken`, far from stacks that may
// grow.
Result<ProgramAddress> find_hole(const schema::Process& process, const std::vector<proc::MapLine>& lines,
                                 ProgramRange taken, std::uint64_t size) {
    constexpr std::uint64_t margin = 64 << 20;
    constexpr ProgramAddress lowest(std::uint64_t{1} << 32), highest(0x7ffff0000000ULL);
    std::vector<ProgramRange> used = {taken};
    for (const auto& line : lines) used.push_back({line.start, line.end});
    for (const auto& area : process.areas) used.push_back({area.start, area.end});
    std::ranges::sort(used);
    ProgramAddress end = lowest;
    for (const auto& [start, stop] : used) {
        if (start > end && start - end >= size + 2 * margin) return end + margin;
        end = std::max(end, stop);
    }
    if (end < highest && highest - end >= size + 2 * margin) return end + margin;
    return fail("process {}: no free place of {} bytes between its mappings", process.pid, size);
}

// Where the running kernel's special mappings stay beside those of another kernel: above everything, as near
// to where the kernel itself would put them as can be. Stacks grow down, and mmap(2) seeks from below its
// base, which lies below the stack.
Result<ProgramAddress> find_special_place(const schema::Process& process,
                                          const std::vector<proc::MapLine>& lines, std::uint64_t size) {
    constexpr ProgramAddress above_all(0x7ffffffff000);
    constexpr std::uint64_t margin = 16 * page;
    ProgramAddress end;
    for (const auto& area : process.areas) end = std::max(end, area.end);
    if (end < above_all && above_all - end >= size + 2 * margin) return end + margin;
    return find_hole(process, lines, {}, size);
}

Result<> place_special(const Rebuilding& rebuilding, const std::vector<proc::MapLine>& lines,
                       Placement& placement) {
    const auto special = std::ranges::find_if(lines, [](const auto& line) { return is_special(line); });
    const auto vdso = std::ranges::find(lines, std::string("[vdso]"), &proc::MapLine::name);
    if (vdso == lines.end()) return fail("process {} has no vdso", rebuilding.pid);
    const auto& areas = rebuilding.process->areas;
    const auto saved = std::ranges::find(areas, schema::AreaKind::vdso, &schema::Area::kind);
    if (saved != areas.end()) {
        placement.vdso = saved->start;
        return {};
    }
    placement.unmaps_special = old_vdso(*rebuilding.process) == nullptr;
    // They lie side by side, as the vdso needs it: it reaches the others by their distance.
    placement.special_size = vdso->end - special->start;
    placement.special = TRY(find_special_place(*rebuilding.process, lines, placement.special_size));
    placement.vdso = placement.special + (vdso->start - special->start);
    return {};
}

struct Attaching {
    std::uint64_t size = 0;        // an upper bound, whatever part of a segment is mapped
    std::uint64_t largest = page;  // page of any of them; where one is attached is a multiple
};

Attaching attaching(const schema::Process& process, const SystemV& system_v) {
    Attaching all;
    for (const auto& area : process.areas) {
        if (system_v.segment(area.object) < 0) continue;
        all.size = std::max(all.size, system_v.size(area.object));
        all.largest = std::max(all.largest, system_v.page(area.object));
    }
    all.size = whole_pages(all.size);
    return all;
}

// One free place for all: the restorer, its parameters, what is on its way, who reads, what is attached.
Result<Placement> find_placement(const Rebuilding& rebuilding, const Inherited& inherited,
                                 const std::vector<proc::MapLine>& lines) {
    std::uint64_t special = 0;
    for (const auto& line : lines)
        if (is_special(line)) special += line.end - line.start;
    const auto reading_size = rebuilding.memory.readers * restorer::reader_space;
    const auto attached = attaching(*rebuilding.process, inherited.system_v);

    Placement placement;
    CHECK_OK(place_special(rebuilding, lines, placement));
    ParameterBlock measure{ProgramAddress()};
    CHECK_OK(add_parameters(measure, rebuilding, inherited, lines, placement));
    placement.size = code_size() + whole_pages(measure.bytes().size() + page);
    placement.base =
        TRY(find_hole(*rebuilding.process, lines, {placement.special, placement.special + special},
                      placement.size + special + page + restorer::huge_page + reading_size + attached.size +
                          attached.largest));
    placement.params = placement.base + code_size();
    placement.staging = placement.base + placement.size;
    const auto behind = placement.staging + special + restorer::huge_page;
    placement.reader_spaces = behind - behind % restorer::huge_page;
    const auto attach = placement.reader_spaces + reading_size + attached.largest - 1;
    placement.attach = attach - attach % attached.largest;
    return placement;
}

Result<> place_code(pid_t pid, const Placement& placement, const std::vector<proc::MapLine>& lines) {
    const auto vdso = std::ranges::find(lines, std::string("[vdso]"), &proc::MapLine::name);
    if (vdso == lines.end()) return fail("process {} has no vdso", pid);
    auto call_at = TRY(ptrace::find_syscall(pid, vdso->start, vdso->end - vdso->start));
    const std::array<std::uint64_t, 6> map = {
        placement.base.value(), placement.size,
        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
        ~std::uint64_t{0},      0};
    auto mapped = TRY(ptrace::remote_call(pid, call_at, SYS_mmap, map));
    if (ProgramAddress(static_cast<std::uint64_t>(mapped)) != placement.base)
        return fail("process {}: no memory for the restorer ({})", pid,
                    std::strerror(static_cast<int>(-mapped)));
    const auto code = std::as_bytes(std::span(cairn_restorer_begin, cairn_restorer_end));
    CHECK_OK(ptrace::write_memory(pid, placement.base, code));
    const std::array<std::uint64_t, 3> protect = {placement.base.value(), code_size(), PROT_READ | PROT_EXEC};
    auto protection = ptrace::remote_call(pid, call_at, SYS_mprotect, protect);
    if (!protection || *protection != 0)
        return fail("process {}: the restorer can't be made executable", pid);
    return {};
}

}  // namespace

Result<> enter(Rebuilding& rebuilding, const Inherited& inherited) {
    CHECK_OK(settle_exec(rebuilding.pid));
    return enter_born(rebuilding, inherited);
}

Result<> enter_born(Rebuilding& rebuilding, const Inherited& inherited) {
    const pid_t pid = rebuilding.pid;
    const auto lines = TRY(proc::maps(pid, false));
    auto& placement = rebuilding.placement;
    placement = TRY(find_placement(rebuilding, inherited, lines));
    CHECK_OK(place_code(pid, placement, lines));
    ParameterBlock block(placement.params);
    CHECK_OK(add_parameters(block, rebuilding, inherited, lines, placement));
    CHECK_OK(ptrace::write_memory(pid, placement.params, block.bytes()));
    return call_restorer(rebuilding, RestorerEntry::rebuild);
}

Result<> call_restorer(const Rebuilding& rebuilding, RestorerEntry entry) {
    const auto& placement = rebuilding.placement;
    restorer::Entries entries = {};
    std::memcpy(&entries, cairn_restorer_begin, sizeof entries);
    auto registers = TRY(ptrace::registers(rebuilding.pid));
    registers.rip =
        (placement.base + (entry == RestorerEntry::rebuild ? entries.rebuild : entries.go)).value();
    registers.rdi = placement.params.value();
    registers.rsp =
        (placement.params + offsetof(restorer::Params, stack) + sizeof(restorer::Params::stack) - 8).value();
    if (entry == RestorerEntry::rebuild) registers.eflags = 0x202;  // interrupts on, and nothing else
    registers.orig_rax = static_cast<std::uint64_t>(-1);
    CHECK_OK(ptrace::set_registers(rebuilding.pid, registers));
    return ptrace::resume(rebuilding.pid, 0);
}

}  // namespace cairn::restart
