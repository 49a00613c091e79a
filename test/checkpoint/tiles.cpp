// AMX's tiles, for which a process asks the kernel (ARCH_REQ_XCOMP_PERM): a thread keeps values in them, its
// siblings have never used them, the main thread does so at last; a child that was born before has not asked.
// heirs: exact
#include <asm/prctl.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "answering_child.h"
#include "support.h"

namespace {

constexpr unsigned tile_data = 18;
constexpr std::uint8_t rows = 16, columns = 64;
using Tile = std::array<std::uint8_t, std::size_t{rows} * columns>;

void configure() {
    struct alignas(64) {
        std::uint8_t palette, start_row, reserved[14];
        std::uint16_t columns[16];
        std::uint8_t rows[16];
    } shape = {1, 0, {}, {columns, columns}, {rows, rows}};
    asm volatile("ldtilecfg %0" : : "m"(shape));
}

void load(const Tile& from) {
    asm volatile("tileloadd (%0,%1,1), %%tmm1" : : "r"(from.data()), "r"(long{columns}) : "memory");
}

void store(Tile& to) {
    asm volatile("tilestored %%tmm1, (%0,%1,1)" : : "r"(to.data()), "r"(long{columns}) : "memory");
}

Tile pattern(std::size_t number) {
    Tile tile;
    for (std::size_t i = 0; i < tile.size(); ++i)
        tile[i] = static_cast<std::uint8_t>(i * 7 + i / 256 + number);
    return tile;
}

bool has_asked() {
    std::uint64_t bits = 0;
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &bits) == 0);
    return (bits >> tile_data & 1) != 0;
}

std::atomic<std::size_t> asked = 0, answered = 0;

// Compares at each question, and puts something else in.
void* keep_a_tile(void*) {
    configure();
    load(pattern(0));
    answered = 1;
    for (std::size_t next = 1;; ++next) {
        while (asked < next) test::nap_between_looks();
        Tile now;
        store(now);
        CHECK(now == pattern(next - 1));
        load(pattern(next));
        answered = next + 1;
    }
}

void* never_use_one(void*) {
    for (;;) pause();
}

char asked_or_not(char) {
    return has_asked() ? 'y' : 'n';
}

}  // namespace

int main() {
    const test::AnsweringChild before(asked_or_not);
    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, tile_data) != 0) test::skip("the processor has no AMX");
    const test::AnsweringChild after(asked_or_not);
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, keep_a_tile, nullptr) == 0);
    CHECK(pthread_create(&thread, nullptr, never_use_one, nullptr) == 0);
    while (answered == 0) test::nap(1);
    std::size_t questions = 0;
    test::serve([&](bool last) {
        asked = ++questions;
        for (int tries = 0; answered != questions + 1; ++tries) {
            CHECK(tries < 5000);
            test::nap(2);
        }
        CHECK(has_asked() && after.ask('?') == 'y' && before.ask('?') == 'n');
        if (!last) return;
        Tile now;
        configure();
        load(pattern(3));
        store(now);
        CHECK(now == pattern(3));
        before.end();
        after.end();
    });
}
