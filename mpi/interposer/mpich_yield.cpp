// MPICH with ch4:ucx never gives its processor away while it waits: four ranks on two processors take 40 to
// 60 times as long as they need. Its calls of UCX come by here; when one has moved nothing, somebody else may
// run. Only where there are more ranks than processors.
#ifdef CAIRN_MPI_MPICH
#include <dlfcn.h>
#include <sched.h>

#include <cstdlib>
#include <ctime>

#include "mpi/interposer/session.h"

namespace {

using Progress = unsigned (*)(void*);

// How often to yield before sleeping: a replay waits for one certain message, and a nap, 50 us by the
// kernel's timer slack, is on everybody's path then. Who computes beside us has the time of each yield.
constexpr unsigned most_yields = 100;

bool more_ranks_than_processors() {
    const char* ranks = std::getenv("MPI_LOCALNRANKS");  // Hydra's, for each host
    if (ranks == nullptr) ranks = std::getenv("PMI_SIZE");
    cpu_set_t set;
    if (ranks == nullptr || ::sched_getaffinity(0, sizeof set, &set) != 0) return false;
    return std::atoi(ranks) > CPU_COUNT(&set);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker) {
    static const Progress real = [] {
        void* library = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD);
        return library != nullptr ? reinterpret_cast<Progress>(::dlsym(library, "ucp_worker_progress"))
                                  : nullptr;
    }();
    static const bool gives_way = more_ranks_than_processors();
    const unsigned moved = real != nullptr ? real(worker) : 0;
    // Not only the wrappers' next call ends it: what comes in pieces isn't waited for.
    if (moved != 0) cairn::mpi::idle = 0;
    if (moved != 0 || !gives_way) return moved;
    // sched_yield alone comes back too soon when the one that is waited for has used more time than we have.
    if (++cairn::mpi::idle < most_yields) {
        ::sched_yield();
    } else {
        const timespec moment{.tv_sec = 0, .tv_nsec = 1000};
        ::nanosleep(&moment, nullptr);
    }
    return moved;
}
#endif
