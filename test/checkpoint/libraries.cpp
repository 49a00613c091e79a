// dlopen'ed libraries, rseq, the vdso's clocks, deep recursion on the main stack, C++ exceptions, after a
// restart.
// rain: soak
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <initializer_list>
#include <stdexcept>

#include "support.h"

namespace {
int deep(int levels) {
    volatile char here[1000];
    here[0] = static_cast<char>(levels);
    here[999] = here[0];
    return levels == 0 ? 0 : deep(levels - 1) + (here[999] == here[0]);
}
bool throws() {
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception& error) {
        return std::strcmp(error.what(), "thrown") == 0;
    }
    return false;
}
}  // namespace

int main() {
    void* library = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) test::skip("no libresolv.so.2");
    void* symbol = dlsym(library, "ns_get16");
    CHECK(symbol != nullptr);
    const double monotonic = test::now(), realtime = test::now(CLOCK_REALTIME),
                 boot = test::now(CLOCK_BOOTTIME);
    test::serve([&](bool last) {
        CHECK(dlsym(library, "ns_get16") == symbol);
        const unsigned char bytes[2] = {1, 2};
        CHECK(reinterpret_cast<unsigned (*)(const unsigned char*)>(symbol)(bytes) == 258);
        void* another = dlopen("libutil.so.1", RTLD_NOW);
        void* rt = dlopen("libanl.so.1", RTLD_NOW);
        CHECK(another != nullptr && rt != nullptr && dlclose(another) == 0 && dlclose(rt) == 0);
        int objects = 0;
        dl_iterate_phdr(
            [](dl_phdr_info*, size_t, void* count) {
                ++*static_cast<int*>(count);
                return 0;
            },
            &objects);
        CHECK(objects >= 4);
        // The vdso answers, and what it says is what the kernel says.
        for (const clockid_t clock :
             {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_MONOTONIC_COARSE}) {
            timespec by_call{};
            const double fast = test::now(clock);
            CHECK(syscall(SYS_clock_gettime, clock, &by_call) == 0);
            const double slow =
                static_cast<double>(by_call.tv_sec) + static_cast<double>(by_call.tv_nsec) / 1e9;
            CHECK(slow - fast < 0.5 && fast - slow < 0.1);
        }
        CHECK(test::now() > monotonic && test::now(CLOCK_REALTIME) > realtime &&
              test::now(CLOCK_BOOTTIME) > boot);
        CHECK(test::now() < monotonic + 300);
        timeval day{};
        CHECK(gettimeofday(&day, nullptr) == 0 && static_cast<double>(day.tv_sec) > realtime - 2);
        CHECK(getauxval(AT_SYSINFO_EHDR) != 0);
        // sched_getcpu reads what the kernel writes into the rseq area.
        for (int cpu = 0; cpu < 2; ++cpu) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(static_cast<size_t>(cpu), &set);
            if (sched_setaffinity(0, sizeof set, &set) != 0) continue;
            CHECK(sched_getcpu() == cpu);
        }
        cpu_set_t both;
        CPU_ZERO(&both);
        CPU_SET(0, &both);
        CPU_SET(1, &both);
        sched_setaffinity(0, sizeof both, &both);
        CHECK(deep(3000) == 3000 && throws());
        unsigned char random[16] = {};
        CHECK(getrandom(random, sizeof random, 0) == sizeof random);
        pthread_t thread;
        CHECK(pthread_create(
                  &thread, nullptr,
                  [](void*) -> void* { return reinterpret_cast<void*>(throws() ? 1L : 0L); }, nullptr) == 0);
        void* value = nullptr;
        CHECK(pthread_join(thread, &value) == 0 && value != nullptr);
        if (last) CHECK(dlclose(library) == 0);
    });
}
