/* What a call leaves on the stack is in the room of the next one: here the vector registers, which the dynamic linker puts there when a function is called
 * for the first time, behind an event. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its room isn't written to. */
static __attribute__((noinline)) void in_what_is_left(void) {
    volatile char room[8192];
    __asm__ volatile("" : : "r"(room) : "memory");
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    const long first = atol(argv[0]);
    in_what_is_left();
    const long second = strtol(argv[0], NULL, 8);
    in_what_is_left();
    printf("%ld\n", first + second);
    MPI_Finalize();
    return 0;
}
