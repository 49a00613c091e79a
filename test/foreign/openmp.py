"""An OpenMP program."""
# ci: user
import os
from cairn_test import check, same_as_undisturbed

PROGRAM = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char** words) {
    enum { n = 1 << 18 };
    static unsigned a[n];
    const int steps = count > 1 ? atoi(words[1]) : 0;
    for (int step = 0; step < steps; ++step) {
        unsigned long sum = 0;
#pragma omp parallel for schedule(dynamic, 1024) reduction(+ : sum)
        for (int i = 0; i < n; ++i) {
            a[i] = a[i] * 1664525u + 1013904223u + (unsigned)i;
            for (int k = 0; k < 10; ++k) a[i] ^= a[i] >> 7, a[i] *= 2654435761u;
            sum += a[i];
        }
#pragma omp parallel
        {
#pragma omp barrier
#pragma omp critical
            sum += 1;
        }
        if (step % 10 == 0) printf("%d %lu %d\n", step, sum, omp_get_max_threads()), fflush(stdout);
    }
    return 0;
}
"""


def test(t):
    source, program = (os.path.join(t.folder, name) for name in ("openmp.c", "openmp"))
    with open(source, "w") as file:
        file.write(PROGRAM)
    code, _, errors = t.run(["gcc", "-O2", "-fopenmp", "-o", program, source])
    check(code == 0, errors)
    same_as_undisturbed(t, lambda steps: [program, str(steps)], scale=1000,
                        env={"OMP_NUM_THREADS": "4", "OMP_WAIT_POLICY": "passive"})
