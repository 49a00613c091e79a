#pragma once
#pragma GCC diagnostic ignored "-Wall"
#include <stdio.h>
#include <time.h>
namespace cairn {
struct MarkTmp {
    const char* n[400];
    double t[400];
    int c = 0;
    ~MarkTmp() {
        FILE* f = fopen("/tmp/marks", "a");
        if (!f) return;
        for (int i = 0; i < c; i++)
            fprintf(f, "%-20s %9.2f %8.2f\n", n[i], (t[i] - t[0]) * 1e3, i ? (t[i] - t[i - 1]) * 1e3 : 0);
        fprintf(f, "--\n");
        fclose(f);
    }
};
inline MarkTmp mark_tmp;
[[gnu::unused]] inline void MARK(const char* s) {
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    if (mark_tmp.c < 400) {
        mark_tmp.n[mark_tmp.c] = s;
        mark_tmp.t[mark_tmp.c++] = double(ts.tv_sec) + double(ts.tv_nsec) * 1e-9;
    }
}
}  // namespace cairn
