#include "common/speculation.h"

#include <linux/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace cairn {
namespace {

constexpr const char* store_bypass_line = "Speculation_Store_Bypass";

// As Status::operator[], without a string for each of thousands of threads.
std::string_view value_of(const proc::Status& status, std::string_view line) {
    auto value = status.line(line);
    value.remove_prefix(std::min(value.find_first_not_of("\t "), value.size()));
    return value;
}

// Where each thread may choose nothing else is called vulnerable than who has chosen until its next exec
// (task_seccomp(), fs/proc/array.c).
bool threads_may_choose() {
    static const bool may = [] {
        const auto own = proc::status(::getpid(), ::gettid());
        return own && value_of(*own, store_bypass_line).starts_with("thread ");
    }();
    return may;
}

}  // namespace

Speculation speculation_of(const proc::Status& status) {
    Speculation found;
    const auto bypass = value_of(status, store_bypass_line),
               branch = value_of(status, "SpeculationIndirectBranch");
    if (bypass == "thread force mitigated") found.store_bypass = PR_SPEC_FORCE_DISABLE;
    if (bypass == "thread mitigated") found.store_bypass = PR_SPEC_DISABLE;
    if (bypass == "vulnerable" && threads_may_choose()) found.store_bypass = PR_SPEC_DISABLE_NOEXEC;
    if (branch == "conditional force disabled") found.indirect_branch = PR_SPEC_FORCE_DISABLE;
    if (branch == "conditional disabled") found.indirect_branch = PR_SPEC_DISABLE;
    return found;
}

}  // namespace cairn
