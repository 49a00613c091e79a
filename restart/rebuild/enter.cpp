#include "restart/rebuild/enter.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "common/proc.h"
#include "common/ptrace/thread.h"
#include "restart/old_vdso.h"
#include "restart/protections.h"
#include "restart/rebuild/parameters.h"
#include "restart/rebuild/tracee.h"

extern "C" {
extern const std::uint8_t cairn_restorer_begin[];
extern const std::uint8_t cairn_restorer_end[];
extern const std::uint8_t cairn_entrance_begin[];
extern const std::uint8_t cairn_entrance_go[];
extern const std::uint8_t cairn_entrance_end[];
}

namespace cairn::restart {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t stack_size = 65536;

std::uint64_t whole_pages(std::uint64_t size) {
    return (size + page - 1) / page * page;
}

// Of the restorer's code; its parameters lie behind it, and its stack behind these.
std::uint64_t code_size() {
    return whole_pages(static_cast<std::uint64_t>(cairn_restorer_end - cairn_restorer_begin));
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
    placement.size = code_size() + whole_pages(measure.size() + page) + stack_size;
    placement.base =
        TRY(find_hole(*rebuilding.process, lines, {placement.special, placement.special + special},
                      placement.size + special + page + restorer::huge_page + reading_size + attached.size +
                          attached.largest));
    placement.params = placement.base + code_size();
    placement.stack = placement.base + (placement.size - stack_size);
    placement.staging = placement.base + placement.size;
    const auto behind = placement.staging + special + restorer::huge_page;
    placement.reader_spaces = behind - behind % restorer::huge_page;
    const auto attach = placement.reader_spaces + reading_size + attached.largest - 1;
    placement.attach = attach - attach % attached.largest;
    return placement;
}

// The entrance goes to the beginning of the page in which the process stands: there is room for it, and all
// that is mapped now will be replaced.
constexpr ProgramAddress entrance_of(const ptrace::Registers& registers) {
    return ProgramAddress(registers.rip / page * page);
}

// Word by word with PTRACE_POKEDATA: code can't be written to otherwise, and a kernel may forbid it to
// whoever writes to /proc/PID/mem (proc_mem.force_override, Linux 6.12).
Result<> write_words(pid_t pid, ProgramAddress at, std::span<const std::byte> bytes) {
    for (std::size_t done = 0; done < bytes.size(); done += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + done, std::min(sizeof word, bytes.size() - done));
        if (::ptrace(PTRACE_POKEDATA, pid, (at + done).value(), word) != 0)
            return fail_errno("writing to the code of {} at {:#x}", pid, at);
    }
    return {};
}

Result<> write_entrance(pid_t pid, ProgramAddress at) {
    return write_words(pid, at, std::as_bytes(std::span(cairn_entrance_begin, cairn_entrance_end)));
}

// Where memory can't become executable later the restorer's is so from the start, and what lies behind its
// code ceases to be.
int first_protection() {
    return own_protections().may_gain_execution ? PROT_READ | PROT_WRITE : PROT_READ | PROT_EXEC;
}

Result<> write_restorer(pid_t pid, ProgramAddress at, std::span<const std::byte> bytes) {
    return own_protections().may_gain_execution ? ptrace::write_memory(pid, at, bytes)
                                                : write_words(pid, at, bytes);
}

struct Protecting {
    ProgramAddress start;
    std::uint64_t size = 0;
    int protection = 0;
};
Protecting last_protection(const Placement& placement) {
    if (own_protections().may_gain_execution) return {placement.base, code_size(), PROT_READ | PROT_EXEC};
    return {placement.params, placement.size - code_size(), PROT_READ | PROT_WRITE};
}

Result<> go_in(pid_t pid, ptrace::Registers registers) {
    registers.orig_rax = static_cast<std::uint64_t>(-1);
    registers.eflags = 0x202;  // interrupts on, and nothing else
    CHECK_OK(ptrace::set_registers(pid, registers));
    return ptrace::resume(pid, 0);
}

std::uint64_t end_of_stack(const Placement& placement) {
    return (placement.stack + stack_size - 8).value();
}

restorer::Entries entries_of_restorer() {
    restorer::Entries entries = {};
    std::memcpy(&entries, cairn_restorer_begin, sizeof entries);
    return entries;
}

}  // namespace

Result<> enter(Rebuilding& rebuilding, const Inherited& inherited) {
    const pid_t pid = rebuilding.pid;
    const auto lines = TRY(proc::maps(pid, false));
    auto& placement = rebuilding.placement;
    placement = TRY(find_placement(rebuilding, inherited, lines));
    ParameterBlock block(placement.params);
    CHECK_OK(add_parameters(block, rebuilding, inherited, lines, placement));
    rebuilding.to_place = block.bytes();

    auto registers = TRY(ptrace::registers(pid));
    const auto entrance = entrance_of(registers);
    CHECK_OK(write_entrance(pid, entrance));
    registers.rip = entrance.value();
    registers.rdi = placement.base.value();
    registers.rsi = placement.size;
    registers.rdx = static_cast<unsigned long long>(first_protection());
    registers.r10 = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    registers.r8 = ~std::uint64_t{0};
    registers.r9 = 0;
    return go_in(pid, registers);
}

Result<> place_restorer(Rebuilding& rebuilding) {
    const pid_t pid = rebuilding.pid;
    const auto& placement = rebuilding.placement;
    auto registers = TRY(ptrace::registers(pid));
    if (ProgramAddress(registers.rax) != placement.base)
        return fail("process {}: no memory for the restorer ({})", pid,
                    std::strerror(static_cast<int>(-static_cast<std::int64_t>(registers.rax))));
    const auto code = std::as_bytes(std::span(cairn_restorer_begin, cairn_restorer_end));
    CHECK_OK(write_restorer(pid, placement.base, code));
    CHECK_OK(write_restorer(pid, placement.params, std::as_bytes(std::span(rebuilding.to_place))));
    rebuilding.to_place = {};
    registers.rip =
        (entrance_of(registers) + static_cast<std::uint64_t>(cairn_entrance_go - cairn_entrance_begin))
            .value();
    const auto protecting = last_protection(placement);
    registers.rdi = protecting.start.value();
    registers.rsi = protecting.size;
    registers.rdx = static_cast<unsigned long long>(protecting.protection);
    registers.rbx = placement.params.value();
    registers.rbp = (placement.base + entries_of_restorer().rebuild).value();
    registers.r12 = restorer::step_protect;
    registers.rsp = end_of_stack(placement);
    return go_in(pid, registers);
}

Result<> let_restorer_go(const Rebuilding& rebuilding) {
    auto registers = TRY(ptrace::registers(rebuilding.pid));
    registers.rip = (rebuilding.placement.base + entries_of_restorer().go).value();
    registers.rdi = rebuilding.placement.params.value();
    registers.rsp = end_of_stack(rebuilding.placement);
    registers.orig_rax = static_cast<std::uint64_t>(-1);
    CHECK_OK(ptrace::set_registers(rebuilding.pid, registers));
    return ptrace::resume(rebuilding.pid, 0);
}

}  // namespace cairn::restart
