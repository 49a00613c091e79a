#include "restart/old_vdso.h"

#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "common/image/page_hashes.h"
#include "common/ptrace/thread.h"
#include "common/vdso.h"
#include "restart/stacks.h"

namespace cairn::restart {
namespace {

constexpr const char* vdso_name = "[vdso]";

bool same_as_running(const schema::Area& vdso) {
    const auto running = running_vdso();
    return vdso.pages.size() == 1 && vdso.pages.front().length == running.size() &&
           is_run_hash(vdso.pages.front().hash,
                       {reinterpret_cast<const std::uint8_t*>(running.data()), running.size()});
}

bool within(const schema::Area& area, std::uint64_t address) {
    return ProgramRange{area.start, area.end}.has(ProgramAddress(address));
}

// What a signal's handler returns to, as the kernel has laid it on the stack (struct sigcontext_64).
struct ReturnPoint {
    std::uint64_t rip, flags;
    std::uint16_t code_segment, gs, fs, stack_segment;
};

bool leads_into(const schema::Area& vdso, const ReturnPoint& point) {
    constexpr std::uint16_t user_code = 0x33;  // __USER_CS
    constexpr std::uint64_t always_set = 2, known_flags = 0x3fffff;
    return within(vdso, point.rip) && point.code_segment == user_code && (point.flags & always_set) != 0 &&
           (point.flags & ~known_flags) == 0;
}

bool returns_into(const schema::Area& vdso, std::span<const std::byte> bytes, std::size_t first) {
    for (auto at = (first + 7) / 8 * 8; at + sizeof(ReturnPoint) <= bytes.size();
         at += sizeof(std::uint64_t)) {
        ReturnPoint point;
        std::memcpy(&point, bytes.data() + at, sizeof point);
        if (leads_into(vdso, point)) return true;
    }
    return false;
}

Error stuck(const schema::Process& process, const schema::Thread& thread, const std::string& kernel) {
    return {fmt::format(
                "process {} ({}): thread {} was inside the vdso of the checkpoint's kernel, {}, and no other "
                "can finish that: restart it there, or from another generation",
                process.pid, process.name, thread.tid, kernel),
            0, ExitCode::refused};
}

Result<> check_threads(const schema::Process& process, const schema::Area& vdso, PageReader& pages,
                       const std::string& kernel) {
    for (const auto& thread : process.threads) {
        const auto registers = registers_of(thread);
        if (!registers) continue;
        if (within(vdso, registers->rip)) return std::unexpected(stuck(process, thread, kernel));
        const bool will_return = TRY(on_stack(process, thread, pages, [&](auto bytes, std::size_t first) {
            return returns_into(vdso, bytes, first);
        }));
        if (will_return) return std::unexpected(stuck(process, thread, kernel));
    }
    return {};
}

bool is_running_kernel(const std::string& kernel) {
    utsname running = {};
    ::uname(&running);
    return kernel == running.release;
}

// As memory like any other.
void keep_special(schema::Process& process) {
    for (auto& area : process.areas)
        if (area.kind == schema::AreaKind::vdso || area.kind == schema::AreaKind::vvar)
            area.kind = schema::AreaKind::anonymous;
}

// Images that an older version of cairn has taken have no bytes of the vdso.
Result<> check_kernel(const schema::Process& process, const std::string& kernel) {
    if (is_running_kernel(kernel)) return {};
    utsname running = {};
    ::uname(&running);
    return fail_code(
        ExitCode::refused,
        "process {}: its image, taken by an older version of cairn, has no vdso, so it can be restarted on "
        "kernel {} only; this is {}",
        process.pid, kernel, running.release);
}

Result<> keep_old_vdso(schema::Process& process, const ImageReader& reader, const std::string& kernel) {
    static const bool forced = std::getenv("CAIRN_OLD_VDSO") != nullptr;
    const auto vdso = std::ranges::find(process.areas, schema::AreaKind::vdso, &schema::Area::kind);
    if (vdso == process.areas.end()) {  // the program has unmapped it, and has no use for the data beside it
        if (!is_running_kernel(kernel)) keep_special(process);
        return {};
    }
    if (vdso->pages.empty()) return check_kernel(process, kernel);
    const Fd image = TRY(reader.open_again());
    PageReader pages(reader.page_data(image.get()));
    if (same_as_running(*vdso) && !forced) {
        // Its bytes are not needed here, but an image is good only as a whole.
        schema::Bytes bytes(vdso->pages.front().length);
        return pages.read_run(vdso->pages.front(), bytes);
    }
    CHECK_OK(check_threads(process, *vdso, pages, kernel));
    keep_special(process);
    return {};
}

void append(std::vector<std::byte>& code, std::uint64_t number, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) code.push_back(static_cast<std::byte>(number >> (8 * i)));
}

// No register is changed.
std::vector<std::byte> jump_to(std::uint64_t address) {
    std::vector<std::byte> code;
    append(code, 0x25ff, 2);  // jmp *0(%rip): to the address that follows
    append(code, 0, 4);
    append(code, address, 8);
    return code;
}

// The function's arguments are the call's, and both say -errno.
std::vector<std::byte> call_kernel(long number) {
    std::vector<std::byte> code;
    append(code, 0xb8, 1);  // mov $number, %eax
    append(code, static_cast<std::uint64_t>(number), 4);
    append(code, 0x050f, 2);  // syscall
    append(code, 0xc3, 1);    // ret
    return code;
}

struct CallOfFunction {
    const char* name;
    long number;
};
constexpr CallOfFunction calls[] = {
    {"__vdso_clock_gettime", SYS_clock_gettime},
    {"__vdso_clock_getres", SYS_clock_getres},
    {"__vdso_gettimeofday", SYS_gettimeofday},
    {"__vdso_time", SYS_time},
    {"__vdso_getcpu", SYS_getcpu},
    {"__vdso_getrandom", SYS_getrandom},
    {"__vdso_sgx_enter_enclave", -1},  // no call, which is what the kernel says: -ENOSYS
};

}  // namespace

Result<> keep_old_vdsos(Computation& computation) {
    for (const auto i : computation.living)
        CHECK_OK(keep_old_vdso(computation.processes[i], computation.images[i], computation.manifest.kernel));
    return {};
}

const schema::Area* old_vdso(const schema::Process& process) {
    const auto found = std::ranges::find_if(process.areas, [](const schema::Area& area) {
        return area.kind == schema::AreaKind::anonymous && area.name == vdso_name;
    });
    return found == process.areas.end() ? nullptr : &*found;
}

Result<std::vector<VdsoPatch>> lead_vdso(std::span<const std::byte> old, std::span<const std::byte> running,
                                         ProgramAddress running_at) {
    const auto from = TRY(vdso_functions(old));
    const auto to = running.empty() ? std::vector<VdsoFunction>{} : TRY(vdso_functions(running));
    std::vector<VdsoPatch> patches;
    for (const auto& function : from) {
        const auto same = std::ranges::find(to, function.name, &VdsoFunction::name);
        const auto* call = std::ranges::find(calls, function.name, &CallOfFunction::name);
        VdsoPatch patch{function.offset, {}};
        // What __vdso_getrandom() keeps between its calls is laid out by each kernel as it likes.
        if (same != to.end() && function.name != "__vdso_getrandom")
            patch.code = jump_to((running_at + same->offset).value());
        else if (call != std::end(calls))
            patch.code = call_kernel(call->number);
        else
            return fail_code(ExitCode::refused,
                             "the vdso of the checkpoint's kernel has {}, which this one hasn't",
                             function.name);
        if (patch.code.size() > function.size)
            return fail_code(ExitCode::refused, "{} in the vdso of the checkpoint's kernel has {} bytes only",
                             function.name, function.size);
        patches.push_back(std::move(patch));
    }
    return patches;
}

Result<> lead_old_vdso(const Rebuilding& rebuilding) {
    const auto* area = old_vdso(*rebuilding.process);
    if (area == nullptr) return {};
    std::vector<std::byte> old(area->end - area->start);
    CHECK_OK(ptrace::read_memory_forced(rebuilding.pid, area->start, old));
    const auto patches = lead_vdso(old, running_vdso(), rebuilding.placement.vdso);
    if (!patches)
        return std::unexpected(Error(patches.error()).in(fmt::format("process {}", rebuilding.process->pid)));
    for (const auto& patch : *patches)
        CHECK_OK(ptrace::write_memory_forced(rebuilding.pid, area->start + patch.offset, patch.code));
    return {};
}

}  // namespace cairn::restart
