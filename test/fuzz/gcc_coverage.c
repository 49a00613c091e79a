// libFuzzer's coverage for programs that gcc compiled (clang 14 can't compile libstdc++ 12's std::expected).
// gcc calls __sanitizer_cov_trace_pc at every edge (-fsanitize-coverage=trace-pc), which libFuzzer only
// refuses, so it is linked with --wrap; libFuzzer counts in arrays like this one. Each place has a counter,
// by its address.
#include <stdint.h>

enum { counter_count = 1 << 16 };
__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t counters[counter_count];

void __wrap___sanitizer_cov_trace_pc(void);
void __wrap___sanitizer_cov_trace_pc(void) {
    const uintptr_t place = (uintptr_t)__builtin_return_address(0);
    uint8_t* counter = &counters[(place ^ place >> 16) % counter_count];
    if (*counter != UINT8_MAX) ++*counter;
}
