/* Switches between two threads, or allocates memory, for a given number of seconds; prints how often.
 *
 *     events switch|malloc WORK SECONDS
 *
 * WORK is the number of turns of a loop between two events. Both threads of `switch` run on one CPU, so each wait is a switch. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long work;
static double deadline;
static int there[2], back[2];
static volatile unsigned long sink;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void turn(void) {
    unsigned long seed = sink;
    for (long round = 0; round < work; round++)
        seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    sink = seed;
}

static void *answer(void *unused) {
    char byte;
    while (read(there[0], &byte, 1) == 1 && byte) {
        turn();
        if (write(back[1], &byte, 1) != 1)
            break;
    }
    return unused;
}

/* Returns the number of switches. */
static long switches(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pthread_t thread;
    if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, answer, NULL))
        exit(1);
    long count = 0;
    char byte = 1;
    do {
        turn();
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            exit(1);
        count += 2;
    } while (count % 64 || now() < deadline);
    byte = 0;
    if (write(there[1], &byte, 1) != 1)
        exit(1);
    pthread_join(thread, NULL);
    return count;
}

/* Returns the number of allocations. */
static long allocations(void) {
    long count = 0;
    do {
        turn();
        void *volatile memory = malloc(64);
        free(memory);
    } while (++count % 64 || now() < deadline);
    return count;
}

int main(int count, char **words) {
    if (count < 4)
        return 2;
    work = atol(words[2]);
    deadline = now() + atof(words[3]);
    double begin = now();
    long events = strcmp(words[1], "switch") ? allocations() : switches();
    printf("%ld %.9f\n", events, now() - begin);
    return 0;
}
