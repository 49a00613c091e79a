// fork and its kin. vfork itself is in vfork.S: a function that returns twice on one stack can't be written
// in C++.
#include "hijack/births.h"

#include <pty.h>
#include <sched.h>
#include <unistd.h>

#include <cstdarg>

#include "hijack/next.h"

namespace cairn::hijack {

thread_local constinit Birth birth;

void births_in_libc_child() {
    if (region() == nullptr) return;
    register_child(birth.announced ? birth.place : Birthplace{});
    birth.registered = true;
}

namespace {

// What clone's child runs first, when it has its memory for itself. Lies on the parent's stack; the child has
// a copy.
struct CloneStart {
    int (*function)(void*);
    void* argument;
    Birthplace place;
};

int clone_child(void* start) {
    const CloneStart todo = *static_cast<CloneStart*>(start);
    if (region() != nullptr) register_child(todo.place);
    return todo.function(todo.argument);
}

}  // namespace
}  // namespace cairn::hijack

using namespace cairn;
using namespace cairn::hijack;

CAIRN_EXPORT pid_t fork() noexcept {
    return announced_birth([] { return next<"fork">(&::fork)(); });
}

CAIRN_EXPORT pid_t __fork() noexcept {
    return fork();
}

// Runs no atfork handlers, so it may be called in a signal handler; and neither do we lock or allocate.
CAIRN_EXPORT pid_t _Fork() noexcept {
    return announced_birth([] { return next<"_Fork">(&::_Fork)(); });
}

CAIRN_EXPORT int forkpty(int* master, char* name, const struct termios* mode,
                         const struct winsize* size) noexcept {
    return announced_birth([=] { return next<"forkpty">(&::forkpty)(master, name, mode, size); });
}

// The parent exits inside; who returns is the child, or a parent whose fork failed.
CAIRN_EXPORT int daemon(int keep_directory, int keep_output) noexcept {
    return announced_birth([=] { return next<"daemon">(&::daemon)(keep_directory, keep_output); });
}

CAIRN_EXPORT int clone(int (*function)(void*), void* stack, int flags, void* argument, ...) noexcept {
    va_list list;
    va_start(
        list,
        argument);  // the three are read whether given or not, as the kernel ignores them without its flags
    auto* parent_tid = va_arg(list, pid_t*);
    auto* tls = va_arg(list, void*);
    auto* child_tid = va_arg(list, pid_t*);
    va_end(list);
    const auto real = next<"clone">(&::clone);
    // Threads are found by the kernel's lists. A child that shares our memory must not write into it; it
    // registers when it execs.
    const bool shares = (flags & CLONE_VM) != 0;
    if (region() == nullptr || shares || !speaks_by_its_own_ids()) {
        const int answer = real(function, stack, flags, argument, parent_tid, tls, child_tid);
        return region() == nullptr || answer < 0 ? answer
                                                 : name_newcomer(region()->ids, KernelId(answer)).number();
    }
    CloneStart start = {function, argument, claim_birth(*region(), raw::pid())};
    const int answer = real(clone_child, stack, flags, &start, parent_tid, tls, child_tid);
    return end_birth(start.place, KernelId(answer)).number();
}

CAIRN_EXPORT int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...) noexcept
    __attribute__((alias("clone")));

// Called by vfork.S.
extern "C" __attribute__((visibility("hidden"))) Birthplace cairn_before_vfork() {
    if (region() == nullptr || !speaks_by_its_own_ids()) return {};
    const Birthplace place = claim_birth(*region(), raw::pid());
    if (place.slot != no_slot)
        region()->slots[place.slot].flags.fetch_or(slot_vfork, std::memory_order_release);
    return place;
}

// `answer` is the kernel's. In the child, which runs on its parent's stack and memory, only the slot is
// written: exec finds it by the pid.
extern "C" __attribute__((visibility("hidden"))) std::int32_t cairn_after_vfork(long answer,
                                                                                Birthplace place) {
    if (answer == 0) {
        if (place.slot == no_slot || of_earlier_life(*region(), place)) return 0;
        const KernelId pid = raw::pid();
        std::int32_t token = place.token;
        if (!region()->slots[place.slot].pid.compare_exchange_strong(token, pid.number())) return 0;
        // Before the state says exec: a time stamp of 0 would be that of a dead process whose pid is ours.
        region()->slots[place.slot].born_ns.store(boottime_ns(), std::memory_order_relaxed);
        name_slot(*region(), place.slot, pid);
        name_process(*region(), place.slot, pid);
        return 0;
    }
    timing_note.call_frame = 0;  // the child had our thread's: its exec has left it in the middle of a call
    if (region() == nullptr) {
        if (!raw::failed(answer)) return static_cast<std::int32_t>(answer);
        errno = static_cast<int>(-answer);
        return -1;
    }
    if (raw::failed(answer)) {
        errno = static_cast<int>(-answer);
        answer = -1;
    }
    return end_birth(place, KernelId(static_cast<std::int32_t>(answer))).number();
}
