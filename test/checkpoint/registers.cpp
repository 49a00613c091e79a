// Registers: a loop keeps values in general, SSE, AVX and x87 registers and the rounding modes all the time,
// in a thread that never enters the kernel.
// rain: soak
// still: exact
#include <immintrin.h>
#include <pthread.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

namespace {
std::atomic<long> loops{0};
std::atomic<bool> stop{false}, wrong{false};
std::atomic<int> spinning{0};

// Holds known values in registers for a while, then compares: what a checkpoint or restart changes is seen.
__attribute__((target("avx"))) void spin_avx() {
    const __m256i pattern =
        _mm256_set_epi64x(0x1111222233334444, 0x5555666677778888, 0x0123456789abcdef, 0x0fedcba987654321);
    alignas(32) long long seen[4];
    long left = 2000000;
    asm volatile(
        "vmovdqa %[pattern], %%ymm7\n"
        "vmovdqa %[pattern], %%ymm15\n"
        "movq $0x1234567, %%r12\n"
        "1: dec %[left]\n"
        "jnz 1b\n"
        "cmpq $0x1234567, %%r12\n"
        "je 2f\n"
        "vxorps %%ymm7, %%ymm7, %%ymm7\n"
        "2: vpxor %%xmm15, %%xmm7, %%xmm14\n"
        "vptest %%xmm14, %%xmm14\n"
        "jz 3f\n"
        "vxorps %%ymm7, %%ymm7, %%ymm7\n"
        "3: vmovdqa %%ymm7, %[seen]\n"
        : [left] "+r"(left), [seen] "=m"(seen)
        : [pattern] "m"(pattern)
        : "r12", "xmm7", "xmm14", "xmm15", "cc", "memory");
    alignas(32) long long expected[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(expected), pattern);
    if (std::memcmp(seen, expected, sizeof seen) != 0) wrong = true;
    _mm256_zeroupper();
}

void spin_x87() {
    unsigned short control = 0x0c7f, now = 0;  // round towards zero, double extended off
    long double result = 0;
    long left = 2000000;
    asm volatile(
        "fldcw %[control]\n"
        "fldpi\n"
        "fldl2e\n"
        "1: dec %[left]\n"
        "jnz 1b\n"
        "faddp\n"
        "fstpt %[result]\n"
        "fnstcw %[now]\n"
        "fninit\n"
        : [left] "+r"(left), [result] "=m"(result), [now] "=m"(now)
        : [control] "m"(control)
        : "cc", "memory");
    if (now != control || result < 4.584L || result > 4.585L) wrong = true;
}

void* spin(void*) {
    _mm_setcsr((_mm_getcsr() & ~0x6000U) | 0x4000U);  // SSE: round up
    ++spinning;
    while (!stop) {
        if (__builtin_cpu_supports("avx")) spin_avx();
        spin_x87();
        if ((_mm_getcsr() & 0x6000U) != 0x4000U) wrong = true;
        ++loops;
    }
    return nullptr;
}
}  // namespace

int main() {
    pthread_t threads[2];
    for (auto& thread : threads) CHECK(pthread_create(&thread, nullptr, spin, nullptr) == 0);
    while (spinning < 2) test::nap(1);
    test::serve([&](bool last) {
        const long before = loops;
        for (int i = 0; i < 4000 && loops < before + 4; ++i) test::nap(5);
        CHECK(loops >= before + 4 && !wrong);
        if (!last) return;
        stop = true;
        for (auto& thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
        CHECK(!wrong);
    });
}
