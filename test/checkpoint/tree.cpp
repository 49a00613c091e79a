// A tree of processes that check themselves and each other all the time: memory, registers, ids, descriptors,
// signals, pipes. Any of them that sees something wrong says FAILED and ends everybody. Usage: tree DEPTH
// WIDTH
// rain: soak
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>

#include "support.h"

namespace {
struct Board {  // shared by all
    std::atomic<long> rounds[256], pings[256];
    std::atomic<int> count;
    std::atomic<bool> stop, failed, left[256];
};
Board* board;
int me = 0, depth_limit = 3, width = 2;
std::atomic<long> got_signals{0};

[[noreturn]] void wrong(const char* what) {
    board->failed = true;
    board->stop = true;
    test::failed(__FILE__, me, what);
}
#define MUST(condition)                      \
    do {                                     \
        if (!(condition)) wrong(#condition); \
    } while (0)

void on_signal(int, siginfo_t* info, void*) {
    if (info->si_code != SI_QUEUE || info->si_value.sival_int != 1234) wrong("siginfo");
    ++got_signals;
}

__attribute__((target("avx"))) void registers(unsigned seed) {
    __m256i value = _mm256_set1_epi32(static_cast<int>(seed));
    const __m256i one = _mm256_set1_epi32(3);
    const __m128 factor = _mm_set1_ps(1.5F);
    __m128 real = _mm_set1_ps(1.0F);
    for (int i = 0; i < 20000; ++i) {
        value = _mm256_castps_si256(_mm256_xor_ps(_mm256_castsi256_ps(value), _mm256_castsi256_ps(one)));
        real = _mm_mul_ps(real, factor);
        real = _mm_div_ps(real, factor);
        asm volatile("" : "+x"(value), "+x"(real));
    }
    alignas(32) unsigned out[8];
    alignas(16) float reals[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(out), value);
    _mm_store_ps(reals, real);
    for (const unsigned each : out) MUST(each == seed);
    for (const float each : reals) MUST(each > 0.999F && each < 1.001F);
}

void* compute(void*) {
    unsigned seed = static_cast<unsigned>(me) * 77777U;
    while (!board->stop) {
        if (__builtin_cpu_supports("avx")) registers(seed);
        ++seed;
        test::nap(3);
    }
    return nullptr;
}

// An echo for the parent beside everything else: a thread reads numbers and sends them back.
void start_echo(int from, int to) {
    static int ends[2];
    ends[0] = from;
    ends[1] = to;
    pthread_t echo;
    MUST(pthread_create(
             &echo, nullptr,
             [](void*) -> void* {
                 long number = 0;
                 while (read(ends[0], &number, sizeof number) == sizeof number)
                     MUST(write(ends[1], &number, sizeof number) == sizeof number);
                 return nullptr;
             },
             nullptr) == 0);
}

// A process goes on until its parent looks after it no more: the tree ends from its root.
void live(int depth, pid_t expected_parent, const std::atomic<bool>& told_to_end) {
    const pid_t pid = getpid(), parent = getppid(), group = getpgrp(), session = getsid(0);
    MUST(expected_parent == 0 || parent == expected_parent);
    int to_child[2], from_child[2];
    MUST(pipe(to_child) == 0 && pipe(from_child) == 0);
    pid_t children[8] = {};
    int numbers[8] = {};
    if (depth < depth_limit) {
        for (int i = 0; i < width; ++i) {
            numbers[i] = board->count++;
            const int parent_me = me;
            children[i] = fork();
            MUST(children[i] >= 0);
            if (children[i] == 0) {
                got_signals = 0;
                me = numbers[i];
                close(to_child[1]);
                close(from_child[0]);
                start_echo(to_child[0], from_child[1]);
                live(depth + 1, pid, board->left[parent_me]);
                _exit(0);
            }
        }
    }
    close(to_child[0]);
    close(from_child[1]);
    char name[64];
    std::snprintf(name, sizeof name, "file.%d", me);
    const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0);
    constexpr size_t words = 1 << 16;
    auto* memory = static_cast<unsigned*>(
        mmap(nullptr, words * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    MUST(memory != MAP_FAILED);
    pthread_t thread;
    MUST(pthread_create(&thread, nullptr, compute, nullptr) == 0);
    long round = 0, signals_sent_to_me = 0;
    off_t position = 0;
    while (!told_to_end && !board->failed) {
        for (size_t i = 0; i < words; i += 16) {
            MUST(memory[i] == static_cast<unsigned>(round) * 31U * static_cast<unsigned>(i != 0));
            memory[i] = (static_cast<unsigned>(round) + 1) * 31U * static_cast<unsigned>(i != 0);
        }
        MUST(getpid() == pid && getppid() == parent && getpgrp() == group && getsid(0) == session);
        MUST(lseek(fd, 0, SEEK_CUR) == position);
        MUST(write(fd, &round, sizeof round) == sizeof round);
        position += static_cast<off_t>(sizeof round);
        long back = -1;
        MUST(pread(fd, &back, sizeof back, position - static_cast<off_t>(sizeof back)) == sizeof back &&
             back == round);
        if (position > 100000) {
            MUST(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
            position = 0;
        }
        MUST(sigqueue(pid, SIGRTMIN + 2, sigval{.sival_int = 1234}) == 0);
        ++signals_sent_to_me;
        for (int i = 0; i < 2000 && got_signals < signals_sent_to_me; ++i) test::nap(1);
        MUST(got_signals >= signals_sent_to_me);
        if (children[0] != 0) {
            MUST(write(to_child[1], &round, sizeof round) == sizeof round);
            MUST(read(from_child[0], &back, sizeof back) == sizeof back && back == round);
            for (int i = 0; i < width; ++i)
                MUST(kill(children[i], 0) == 0 && waitpid(children[i], nullptr, WNOHANG) == 0);
        }
        board->rounds[me] = ++round;
        test::nap(5 + me % 5);
    }
    board->left[me] = true;
    MUST(pthread_join(thread, nullptr) == 0);
    close(to_child[1]);
    for (const pid_t child : children) {
        int status = 0;
        if (child != 0) MUST(waitpid(child, &status, 0) == child && status == 0);
    }
}
}  // namespace

int main(int argc, char** argv) {
    if (argc > 2) {
        depth_limit = std::atoi(argv[1]);
        width = std::atoi(argv[2]);
    }
    board = static_cast<Board*>(
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(board != MAP_FAILED);
    board->count = 1;
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGRTMIN + 2, &action, nullptr);
    // The root watches and takes orders; its only child leads the tree.
    const pid_t tree = fork();
    CHECK(tree >= 0);
    if (tree == 0) {
        live(0, getppid(), board->stop);
        _exit(0);
    }
    while (board->rounds[0] == 0) test::nap(5);
    test::nap(200);
    test::serve([&](bool last) {
        const int count = board->count;
        long before[256];
        for (int i = 0; i < count; ++i) before[i] = board->rounds[i];
        bool moved = false;
        for (int tries = 0; tries < 500 && !moved; ++tries) {
            test::nap(20);
            moved = true;
            for (int i = 0; i < count; ++i) moved = moved && board->rounds[i] > before[i] + 1;
        }
        for (int i = 0; i < count; ++i) {
            if (board->rounds[i] <= before[i] + 1) std::fprintf(stderr, "process %d stands still\n", i);
        }
        CHECK(moved && !board->failed);
        if (!last) return;
        board->stop = true;
        int status = 0;
        CHECK(waitpid(tree, &status, 0) == tree && status == 0 && !board->failed);
    });
}
