// The environment of a program that is to be executed: what keeps it in the session, put in or taken out.
#pragma once

#include <alloca.h>

#include <cstddef>

namespace cairn::hijack {

enum class Membership {
    member,   // LD_PRELOAD begins with our library (theirs follows), CAIRN_REGION and CAIRN_LIBRARY are there
    outside,  // none of these
    // As `member`, but LD_PRELOAD is without our library: another libc's loader ends a program for a library
    // that was built for glibc, and glibc's complains of one that it doesn't find. A checkpoint gives it to
    // them.
    without_preload,
};

// What has to be changed. Two steps, because the memory comes from the caller's stack: malloc isn't ours to
// call, and in a child of vfork it isn't anybody's.
struct EnvironmentPlan {
    char* const* given;
    Membership membership;
    bool complete;        // nothing to change
    const char* preload;  // value of LD_PRELOAD, null: none
    std::size_t bytes;    // memory that build_environment needs
    bool has_region, right_region, has_library;
    // The new image runs as another user than the session's, or under another root, and can't open the region
    // by its path.
    bool wants_gate, has_gate, right_gate;
};

// `given` may be null: an empty environment, as execve(2) has it.
EnvironmentPlan plan_environment(char* const* given, Membership membership);

// The changed environment, in `memory` of plan.bytes (aligned for pointers). It points into the given one.
char** build_environment(const EnvironmentPlan& plan, void* memory);

// Calls `use` with the environment that `given` becomes.
template <class Use>
[[gnu::noinline]] int with_environment(char* const* given, Membership membership, Use use) {
    const EnvironmentPlan plan = plan_environment(given, membership);
    if (plan.complete) return use(given);
    return use(static_cast<char* const*>(build_environment(plan, ::alloca(plan.bytes))));
}

// Puts what is missing into `environ`, for functions of libc that start a program with it without asking us.
void complete_environ();

// The value of a variable, null if it isn't there.
const char* variable(char* const* environment, const char* name);

}  // namespace cairn::hijack
