#include <stdio.h>
#include <unistd.h>
volatile int watched, go_on = 1;
static int work(int n) {
    int sum = 0;
    for (int i = 0; i <= n; ++i)
        sum += i;
    watched = sum;
    return sum;
}
int main(void) {
    for (int round = 1; go_on; ++round) {
        int got = work(round);
        printf("round %d gives %d\n", round, got);
        fflush(stdout);
        usleep(1000);
    }
    puts("the end");
    return 7;
}
