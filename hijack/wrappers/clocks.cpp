// CPU time: a restored process is a new one for the kernel. What it had used before is added to what the
// kernel says, so that these clocks don't go back.
#include <sys/resource.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#include "common/agent.h"
#include "hijack/next.h"
#include "hijack/timing.h"

using namespace cairn;
using namespace cairn::hijack;

extern "C" [[gnu::visibility("hidden")]] Door cairn_door;

namespace {

constexpr std::int64_t second_ns = 1'000'000'000, second_us = 1'000'000;

void add(struct timeval& time, std::int64_t microseconds) {
    const std::int64_t sum = time.tv_sec * second_us + time.tv_usec + microseconds;
    time.tv_sec = sum / second_us;
    time.tv_usec = sum % second_us;
}

}  // namespace

CAIRN_EXPORT int clock_gettime(clockid_t clock, struct timespec* time) noexcept {
    const int result = next<"clock_gettime">(&::clock_gettime)(clock, time);
    if ((clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID) || result != 0) return result;
    const std::int64_t base = clock == CLOCK_THREAD_CPUTIME_ID ? thread_cpu_base : cairn_door.cpu.process_ns;
    if (base == 0) return result;
    const std::int64_t sum = time->tv_sec * second_ns + time->tv_nsec + base;
    time->tv_sec = sum / second_ns;
    time->tv_nsec = sum % second_ns;
    return result;
}

CAIRN_EXPORT clock_t clock() noexcept {
    const clock_t result = next<"clock">(&::clock)();
    return result < 0 ? result : result + cairn_door.cpu.process_ns / (second_ns / CLOCKS_PER_SEC);
}

CAIRN_EXPORT clock_t times(struct tms* usage) noexcept {
    const clock_t result = next<"times">(&::times)(usage);
    if (usage == nullptr || cairn_door.cpu.process_ns == 0) return result;
    const std::int64_t tick_us = second_us / ::sysconf(_SC_CLK_TCK);
    const CpuBase& base = cairn_door.cpu;
    usage->tms_utime += base.user_us / tick_us;
    usage->tms_stime += base.system_us / tick_us;
    usage->tms_cutime += base.children_user_us / tick_us;
    usage->tms_cstime += base.children_system_us / tick_us;
    return result;
}

CAIRN_EXPORT int getrusage(__rusage_who_t who, struct rusage* usage) noexcept {
    const int result = next<"getrusage">(&::getrusage)(who, usage);
    if (result != 0) return result;
    const CpuBase& base = cairn_door.cpu;
    if (who == RUSAGE_SELF) {
        add(usage->ru_utime, base.user_us);
        add(usage->ru_stime, base.system_us);
    } else if (who == RUSAGE_CHILDREN) {
        add(usage->ru_utime, base.children_user_us);
        add(usage->ru_stime, base.children_system_us);
    } else if (who == RUSAGE_THREAD) {
        add(usage->ru_utime, thread_cpu_base / (second_ns / second_us));
    }
    return result;
}
