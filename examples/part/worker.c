/* A program that takes part in its checkpoints: cc worker.c -lcairn-part. It runs without cairn as well.

   It keeps two files equal, and no checkpoint is taken while they differ; it asks for a checkpoint when it has done
   a third of its work, and learns there whether it has come back from it. */
#include <cairn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int number_in(const char *name) {
    int number = -1;
    FILE *file = fopen(name, "r");
    if (file != NULL && fscanf(file, "%d", &number) != 1) number = -2;
    if (file != NULL) fclose(file);
    return number;
}

/* Nobody is in a section when hooks are called. */
static int before(void *data) {
    printf("BEFORE %d\n", *(int *)data);
    if (number_in("first") != number_in("second")) return cairn_refuse("the files differ"), 1;
    return access("refuse", F_OK) == 0 ? (cairn_refuse("the file refuse is there"), 1) : 0;
}

static void after(int what, void *data) {
    printf("AFTER %s %d\n", what == CAIRN_ORIGINAL ? "original" : "given up", *(int *)data);
}

static void restarted(void *data) {
    printf("RESTARTED %d\n", *(int *)data);
}

static void write_both(int step) {
    cairn_forbid();
    for (int i = 0; i < 2; ++i) {
        FILE *file = fopen(i == 0 ? "first" : "second", "w");
        fprintf(file, "%d\n", step);
        fclose(file);
        usleep(1000);
    }
    cairn_allow();
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : 300;
    int step = 0;
    const struct cairn_callbacks hooks = {before, after, restarted, &step};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cairn_hooks(&hooks) < 0) return 1;
    printf("ENABLED %d\n", cairn_enabled());
    for (; step < steps; ++step) {
        write_both(step);
        if (step != steps / 3) continue;
        const int result = cairn_checkpoint(60);
        printf("CHECKPOINT %d\n", result);
    }
    printf("DONE %d\n", step);
    return 0;
}
