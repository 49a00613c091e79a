#include "restart/pages/choice.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "restart/memory_plan.h"
#include "restart/pages/user_fault.h"

namespace cairn::restart::pages {
namespace {

// Less is read within a second, and then nothing can go wrong any more.
constexpr std::uint64_t worth_it = std::uint64_t{4} << 30;

// A core dump shows what is missing as zeros. Nobody is to find that out who hasn't asked for lazy memory.
bool may_dump_core(const std::vector<const schema::Process*>& processes) {
    std::ifstream file("/proc/sys/kernel/core_pattern");
    std::string pattern;
    std::getline(file, pattern);
    if (pattern.starts_with('|')) return true;  // whatever the limit
    return std::ranges::any_of(processes, [](const schema::Process* process) {
        return process->limits.size() > RLIMIT_CORE && process->limits[RLIMIT_CORE].soft > 0;
    });
}

}  // namespace

Result<bool> choose_lazy(Memory wish, const std::vector<const schema::Process*>& processes) {
    if (wish == Memory::eager) return false;
    std::uint64_t bytes = 0;
    for (const auto* process : processes) bytes += lazy_bytes(*process);
    if (wish == Memory::automatic && (bytes < worth_it || may_dump_core(processes))) return false;
    if (auto possible = can_be_lazy(); !possible) {
        if (wish == Memory::automatic) return false;
        return fail_code(ExitCode::refused, "--lazy: {}; use --eager", possible.error().what);
    }
    return true;
}

}  // namespace cairn::restart::pages
