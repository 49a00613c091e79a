/* A program that works for as long as it has a licence, and knows nothing of cairn. cc licensed.c -llicence */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vendor.h"

int main(int argc, char **argv) {
    const int licence = argc > 1 ? licence_take(atoi(argv[1])) : -1;
    int beats = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (licence < 0) return puts("NO LICENCE"), 1;
    for (; access("stop", F_OK) != 0; ++beats) {
        if (licence_beat(licence) != 0) return printf("LOST %d\n", beats), 1;
        if (beats % 20 == 0) printf("BEAT %d\n", beats);
        usleep(5000);
    }
    return printf("DONE %d\n", beats), 0;
}
