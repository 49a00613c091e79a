"""A threaded program that allocates and frees all the time, under another allocator."""

import os

from .rounds import same_as_undisturbed
from .session import Failure

PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
enum { threads = 4, kept = 2000, steps = 1500 };
static unsigned long sums[threads];
static pthread_barrier_t barrier;
static void* work(void* argument) {
    long me = (long)argument;
    unsigned long state = (unsigned long)me * 977 + 1, sum = 0;
    unsigned char* held[kept] = {0};
    size_t sizes[kept] = {0};
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < 60; ++i) {
            state = state * 6364136223846793005ul + 1442695040888963407ul;
            unsigned at = (unsigned)(state >> 33) % kept;
            if (held[at]) {
                for (size_t k = 0; k < sizes[at]; k += 509) {
                    if (held[at][k] != (unsigned char)(sizes[at] + k)) abort();
                    sum = sum * 31 + held[at][k];
                }
            }
            size_t size = 1 + (state >> 20) % ((state & 63) == 0 ? 600000 : 3000);
            if (state & 1024) { free(held[at]); held[at] = malloc(size); }
            else held[at] = realloc(held[at], size);
            for (size_t k = 0; k < size; k += 509) held[at][k] = (unsigned char)(size + k);
            sizes[at] = size;
        }
        struct timespec nap = {0, 1000000};
        nanosleep(&nap, 0);
        if (step % 100 == 0) {
            sums[me] = sum;
            pthread_barrier_wait(&barrier);
            if (me == 0) {
                printf("%d", step);
                for (int k = 0; k < threads; ++k) printf(" %lx", sums[k]);
                printf("\n");
                fflush(stdout);
            }
            pthread_barrier_wait(&barrier);
        }
    }
    return 0;
}
int main(int count, char** words) {
    pthread_t made[threads];
    if (count != 2 || !dlsym(RTLD_DEFAULT, words[1])) {
        printf("this is another allocator: it has no %s\n", count == 2 ? words[1] : "name");
        return 3;
    }
    pthread_barrier_init(&barrier, 0, threads);
    for (long i = 0; i < threads; ++i) pthread_create(&made[i], 0, work, (void*)i);
    for (int i = 0; i < threads; ++i) pthread_join(made[i], 0);
    return 0;
}
"""


def under(t, library, symbol):
    """`symbol` is one that this library has, and libc hasn't."""
    source, program = (os.path.join(t.folder, name) for name in ("allocate.c", "allocate"))
    with open(source, "w") as file:
        file.write(PROGRAM)
    code, _, errors = t.run(["gcc", "-O1", "-pthread", "-o", program, source])
    if code != 0:
        raise Failure(errors)
    same_as_undisturbed(t, [program, symbol], env={"LD_PRELOAD": library})
