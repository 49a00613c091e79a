// What the programs that benches checkpoint have in common: the time, words of memory that tell whether they
// are right, and a file that they say things in.
#pragma once

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace cairn::bench {

// ns
inline std::int64_t now(clockid_t clock = CLOCK_REALTIME) {
    timespec t{};
    clock_gettime(clock, &t);
    return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

// splitmix64: nothing to compress, no page like another.
inline std::uint64_t word(std::uint64_t index) {
    std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

// Appends a line. The file is opened for each: a checkpoint finds no descriptor of ours open.
inline void report(const char* path, const char* what, std::int64_t a, std::int64_t b) {
    char line[128];
    const int length = std::snprintf(line, sizeof line, "%s %lld %lld\n", what, static_cast<long long>(a),
                                     static_cast<long long>(b));
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, static_cast<std::size_t>(length)) != length) _exit(1);
    close(fd);
}

}  // namespace cairn::bench
