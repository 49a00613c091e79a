// A thousand threads that come and go: 32 lives begin 32 each, wait for them, and begin again.
#include <pthread.h>

#include <atomic>

#include "support.h"

namespace {
std::atomic<bool> stop{false};
std::atomic<long> count{0};

void* life(void*) {
    constexpr long each = 32;
    while (!stop) {
        pthread_t made[each];
        for (long i = 0; i < each; ++i)
            CHECK(pthread_create(
                      &made[i], nullptr, [](void* argument) { return argument; },
                      reinterpret_cast<void*>(i + 10)) == 0);
        for (long i = 0; i < each; ++i) {
            void* value = nullptr;
            CHECK(pthread_join(made[i], &value) == 0 && reinterpret_cast<long>(value) == i + 10);
        }
        ++count;
    }
    return nullptr;
}
}  // namespace

int main() {
    pthread_t lives[32];
    for (auto& each : lives) CHECK(pthread_create(&each, nullptr, life, nullptr) == 0);
    test::serve([&](bool last) {
        const long before = count;
        for (int tries = 0; tries < 1000 && count <= before + 32; ++tries) test::nap(10);
        CHECK(count > before + 32);
        if (!last) return;
        stop = true;
        for (auto& each : lives) CHECK(pthread_join(each, nullptr) == 0);
    });
}
