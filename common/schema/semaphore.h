// What a process owes to System V semaphores.
#pragma once

#include <cstdint>

namespace cairn::schema {

// What the kernel will add to a System V semaphore when the process ends (SEM_UNDO, semop(2)).
struct SemaphoreUndo {
    std::int32_t semaphores = 0;  // id of the set, as the programs know it
    std::int32_t number = 0;      // in the set
    std::int32_t adjust = 0;      // never 0
};

}  // namespace cairn::schema
