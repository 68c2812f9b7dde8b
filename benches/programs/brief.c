/* Burns a given number of milliseconds of CPU time, and ends.
 *
 *     brief MILLISECONDS */
#include <stdlib.h>
#include <time.h>

static volatile unsigned long sink;

static double used(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

__attribute__((noinline)) static void burn(void) {
    for (int round = 0; round < 20000; round++)
        sink = sink * 6364136223846793005UL + 1442695040888963407UL;
}

int main(int count, char **words) {
    double wanted = count > 1 ? atof(words[1]) : 30;
    while (used() < wanted)
        burn();
    return 0;
}
