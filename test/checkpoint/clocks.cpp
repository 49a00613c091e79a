// What the vdso tells, by libc and by a program's own search for its functions, in four threads that ask all
// the time: it lies between what the kernel says before and after. Signals come in the midst of it.
// rain: soak
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <atomic>
#include <cstdint>
#include <string_view>
#include <thread>

#include "support.h"

namespace {

using ClockGettime = int (*)(clockid_t, timespec*);
using Gettimeofday = int (*)(timeval*, void*);
using Time = time_t (*)(time_t*);
using Getcpu = int (*)(unsigned*, unsigned*, void*);

struct Functions {
    ClockGettime clock_gettime = nullptr;
    Gettimeofday gettimeofday = nullptr;
    Time time = nullptr;
    Getcpu getcpu = nullptr;
};

// As Go and others find them: by the section of dynamic symbols, of what the auxiliary vector leads to.
template <class T>
T find(const char* wanted) {
    const std::uint64_t base = getauxval(AT_SYSINFO_EHDR);
    const auto* head = reinterpret_cast<const Elf64_Ehdr*>(base);
    CHECK(base != 0 && std::memcmp(head->e_ident, ELFMAG, SELFMAG) == 0);
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(base + head->e_shoff);
    for (int i = 0; i < head->e_shnum; ++i) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        const auto* symbols = reinterpret_cast<const Elf64_Sym*>(base + sections[i].sh_offset);
        const auto* names = reinterpret_cast<const char*>(base + sections[sections[i].sh_link].sh_offset);
        for (std::uint64_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Sym); ++k)
            if (std::string_view(names + symbols[k].st_name) == wanted)
                return reinterpret_cast<T>(base + symbols[k].st_value);
    }
    test::failed(__FILE__, __LINE__, wanted);
}

Functions of_the_vdso() {
    return {find<ClockGettime>("__vdso_clock_gettime"), find<Gettimeofday>("__vdso_gettimeofday"),
            find<Time>("__vdso_time"), find<Getcpu>("__vdso_getcpu")};
}

Functions of_libc() {
    const auto getcpu_of_libc = [](unsigned* cpu, unsigned* node, void*) { return ::getcpu(cpu, node); };
    return {&::clock_gettime, reinterpret_cast<Gettimeofday>(&::gettimeofday), &::time, getcpu_of_libc};
}

timespec by_call(clockid_t clock) {
    timespec time{};
    CHECK(syscall(SYS_clock_gettime, clock, &time) == 0);
    return time;
}

std::int64_t nanoseconds(const timespec& time) {
    return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

void check_clock(const Functions& functions, clockid_t clock, std::int64_t coarse) {
    timespec told{};
    const timespec before = by_call(clock);
    CHECK(functions.clock_gettime(clock, &told) == 0);
    const timespec after = by_call(clock);
    CHECK(nanoseconds(told) >= nanoseconds(before) && nanoseconds(told) <= nanoseconds(after) + coarse);
}

void check_all(const Functions& functions) {
    // The realtime clock may be set while this runs: by no more than a step of adjustment, here.
    constexpr std::int64_t slack = 100'000;
    check_clock(functions, CLOCK_MONOTONIC, 0);
    check_clock(functions, CLOCK_BOOTTIME, 0);
    check_clock(functions, CLOCK_MONOTONIC_RAW, 0);
    check_clock(functions, CLOCK_REALTIME, slack);
    check_clock(functions, CLOCK_MONOTONIC_COARSE, 0);
    const timespec before = by_call(CLOCK_REALTIME_COARSE);
    timeval day{};
    CHECK(functions.gettimeofday(&day, nullptr) == 0);
    const time_t seconds = functions.time(nullptr);
    const timespec after = by_call(CLOCK_REALTIME);
    CHECK(day.tv_sec >= before.tv_sec && day.tv_sec <= after.tv_sec + 1);
    CHECK(seconds >= before.tv_sec && seconds <= after.tv_sec + 1);
    unsigned cpu = ~0U, node = ~0U;
    CHECK(functions.getcpu(&cpu, &node, nullptr) == 0 && cpu < 4096 && node < 1024);
}

std::atomic<std::uint64_t> handled = 0;

// Looks from where it stands, which is a function of the vdso most of the time, back to who has called it.
void look_back(int) {
    const int number = errno;
    void* frames[64];
    if (backtrace(frames, 64) > 0) ++handled;
    errno = number;
}

}  // namespace

int main() {
    void* frames[4];
    backtrace(frames, 4);  // loads what it needs: not in the handler
    struct sigaction action {};
    action.sa_handler = look_back;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
    const itimerval every = {{0, 2000}, {0, 2000}};
    CHECK(setitimer(ITIMER_REAL, &every, nullptr) == 0);

    std::atomic<std::uint64_t> asked[4] = {};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            const Functions functions = i % 2 == 0 ? of_libc() : of_the_vdso();
            for (;;) {
                check_all(functions);
                ++asked[i];
            }
        });
    test::serve([&](bool) {
        std::uint64_t before[4];
        for (int i = 0; i < 4; ++i) before[i] = asked[i];
        const std::uint64_t handled_before = handled;
        for (int tries = 0; tries < 1000; ++tries) {
            bool all = handled > handled_before;
            for (int i = 0; i < 4; ++i) all = all && asked[i] > before[i] + 100;
            if (all) break;
            CHECK(tries < 999);
            test::nap(20);
        }
        check_all(of_libc());
        check_all(of_the_vdso());  // found anew
        unsigned char random[256] = {}, more[256] = {};
        CHECK(getrandom(random, sizeof random, 0) == sizeof random &&
              getrandom(more, sizeof more, 0) == sizeof more);
        CHECK(std::memcmp(random, more, sizeof random) != 0);
    });
}
