#include "restart/forest/board.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <new>

namespace cairn::restart::forest {

namespace {

// Futexes shared between processes; the kernel reads the word itself.
static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, int milliseconds) {
    const timespec time{.tv_sec = milliseconds / 1000, .tv_nsec = (milliseconds % 1000) * 1'000'000L};
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake(const std::atomic<std::uint32_t>& word) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

Result<std::shared_ptr<Board>> Board::create(std::size_t processes, std::size_t barriers) {
    const std::size_t size =
        sizeof(Head) + processes * sizeof(Entry) + barriers * sizeof(std::atomic<std::uint32_t>);
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return fail_errno("can't map {} bytes for {} processes to meet", size, processes);
    return std::shared_ptr<Board>(new Board(memory, size, processes, barriers));
}

Board::Board(void* memory, std::size_t size, std::size_t processes, std::size_t barriers)
    : memory_(memory), size_(size), processes_(processes), barrier_count_(barriers) {
    auto* next = static_cast<std::byte*>(memory);
    head_ = new (next) Head{};
    entries_ = new (next + sizeof(Head)) Entry[processes]{};
    barriers_ = new (next + sizeof(Head) + processes * sizeof(Entry)) std::atomic<std::uint32_t>[barriers] {};
}

Board::~Board() {
    ::munmap(memory_, size_);
}

void Board::signal(int barrier, int needed) {
    if (barriers_[barrier].fetch_add(1) + 1 >= static_cast<std::uint32_t>(needed)) {
        futex_wake(barriers_[barrier]);
        pulse();
    }
}

bool Board::reached(int barrier, int needed) const {
    return barriers_[barrier].load() >= static_cast<std::uint32_t>(needed);
}

void Board::sleep_on(int barrier, int needed, int milliseconds) {
    const std::uint32_t now = barriers_[barrier].load();
    // stop() changes no barrier: it may fall between this test and the sleep, which is why every sleep is
    // short.
    if (now < static_cast<std::uint32_t>(needed) && !stopped())
        futex_wait(barriers_[barrier], now, milliseconds);
}

namespace {
constexpr useconds_t moment_us = 100;
}

bool Board::take_turn() {
    for (std::uint32_t free = 0; !head_->turn.compare_exchange_strong(free, 1); free = 0) {
        if (stopped()) return false;
        ::usleep(moment_us);
    }
    return true;
}

void Board::end_turn() {
    head_->turn.store(0);
}

bool Board::ask(int clerk, std::int32_t id) {
    head_->clerk.store(clerk);
    head_->wanted.store(id);
    while (head_->wanted.load() != 0) {
        if (stopped()) return false;
        ::usleep(moment_us);
    }
    return true;
}

std::int32_t Board::asked(int clerk) const {
    const std::int32_t wanted = head_->wanted.load();
    return wanted != 0 && head_->clerk.load() == clerk ? wanted : 0;
}

void Board::answer() {
    head_->wanted.store(0);
}

void Board::pulse() {
    head_->pulses.fetch_add(1);
    futex_wake(head_->pulses);
}

void Board::sleep_on_pulse(std::uint32_t seen, int milliseconds) {
    futex_wait(head_->pulses, seen, milliseconds);
}

void Board::fail(int process, int step, Mishap mishap, int number) {
    Failure& failure = head_->failure;
    if (failure.taken.exchange(1) == 0) {
        failure.process = process;
        failure.step = step;
        failure.mishap = mishap;
        failure.number = number;
        failure.complete.store(1);
    }
    stop();
}

void Board::stop() {
    head_->stopped.store(1);
    for (std::size_t i = 0; i < barrier_count_; ++i) futex_wake(barriers_[i]);
    pulse();
}

}  // namespace cairn::restart::forest
