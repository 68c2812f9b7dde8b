/* Two threads that burn their CPUs at a given depth of calls, for a given number of seconds.
 *
 *     spin DEPTH SECONDS
 *
 * Frames are about 64 bytes, as in ordinary programs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double deadline;
static volatile unsigned long sink;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noinline)) static unsigned long leaf(unsigned long seed) {
    for (int round = 0; round < 200000; round++) {
        seed = seed * 6364136223846793005UL + 1442695040888963407UL;
        sink = seed;
    }
    return seed;
}

__attribute__((noinline)) static unsigned long descend(int depth, unsigned long a, unsigned long b) {
    volatile unsigned long room[3] = {a, b, depth};
    if (depth <= 0) {
        do {
            b += leaf(a);
        } while (now() < deadline);
        return b;
    }
    unsigned long result = descend(depth - 1, a + room[1], b ^ room[2]);
    return result + room[0];
}

static void *run(void *depth) {
    sink += descend(*(int *)depth, 1, 2);
    return NULL;
}

int main(int count, char **words) {
    int depth = count > 1 ? atoi(words[1]) : 10;
    deadline = now() + (count > 2 ? atof(words[2]) : 1);
    pthread_t threads[2];
    for (int index = 0; index < 2; index++)
        pthread_create(&threads[index], NULL, run, &depth);
    for (int index = 0; index < 2; index++)
        pthread_join(threads[index], NULL);
    return 0;
}
