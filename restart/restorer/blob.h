// What the parts of the restorer blob share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/raw.h"
#include "restart/restorer/params.h"

namespace cairn::restart::restorer {

using raw::call;

[[noreturn]] inline void trap() {
    for (;;) asm volatile("int3");
}

[[noreturn]] inline void give_up(Params* params, Step step, long result, std::uint64_t detail) {
    params->failed_errno = static_cast<std::int32_t>(-result);
    params->failed_detail = detail;
    params->failed_step = step;
    trap();
}

inline void must(Params* params, Step step, long result, std::uint64_t detail) {
    if (result < 0) give_up(params, step, result, detail);
}

template <class T>
T* at(std::uint64_t address) {
    return reinterpret_cast<T*>(address);
}

using Entry = void (*)(void*);

// A thread with a stack of its own (clone3, or clone where that is hidden); it calls entry(argument) and
// never comes back. `tid`: 0 for any. `alive`, unless null, isn't 0 from now until the thread has left its
// stack for good; then a futex wakes.
[[gnu::visibility("hidden")]] long start_thread(std::uint64_t stack, std::uint64_t stack_size,
                                                std::int32_t tid, Entry entry, void* argument,
                                                std::uint32_t* alive);

// Everything that exec has mapped goes, everything of the image comes, its pages are read.
[[gnu::visibility("hidden")]] void restore_memory(Params* params);
// The part of it that brings what the runs and units say.
[[gnu::visibility("hidden")]] void read_pages(Params* params);
// Of an IPC namespace of its own, which it has entered.
[[gnu::visibility("hidden")]] void attach_in_own_ipc(Params* params);

// What the program mustn't do with its memory any more; the tool can't either, from here on.
[[gnu::visibility("hidden")]] void protect_memory(Params* params);

// User, groups and capabilities of the calling thread, for good.
[[gnu::visibility("hidden")]] void set_credentials(Params* params, const Thread& thread);

// Those of the group's own that the process is in. While it has one thread.
[[gnu::visibility("hidden")]] void enter_namespaces(Params* params);
[[gnu::visibility("hidden")]] void take_root_of_the_dead(Params* params);

// XXH3-64, as common/image/hash.h; the wide one needs AVX2.
[[gnu::visibility("hidden")]] std::uint64_t hash_wide(const void* data, std::size_t size);
[[gnu::visibility("hidden")]] std::uint64_t hash_plain(const void* data, std::size_t size);

}  // namespace cairn::restart::restorer
