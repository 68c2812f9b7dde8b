/* What every truth program shares: it says when it is ready, and it always ends.
 *
 * A program gets the seconds it may live as its first argument. It prints its pid and "ready" once it is about
 * to enter its chain, so that whoever looks at it sees the chain and not the start-up.
 */
#ifndef TRUTH_H
#define TRUTH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Keeps a function in one piece under its own name: not inlined, cloned, or adapted to its callers. */
#define ALONE __attribute__((noinline, noclone, noipa))

/* Stands behind a call so that the call is not turned into a jump. */
#define STAY() __asm__ volatile("" ::: "memory")

static volatile unsigned long work;
static double deadline;

ALONE __attribute__((unused)) static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Some 20 ms of work in the function that says it, long against the look at the clock in between. */
#define BURN()                                      \
    do {                                            \
        for (unsigned i = 0; i < 1u << 24; i++)     \
            work++;                                 \
    } while (0)

/* The leaf of most chains: works until the end. */
#define BURN_UNTIL_DEADLINE()                       \
    do {                                            \
        BURN();                                     \
    } while (now() < deadline)

__attribute__((unused)) static void begin(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    if (seconds <= 0 || seconds > 600) {
        fprintf(stderr, "usage: %s SECONDS (more than 0, at most 600) ...\n", argv[0]);
        exit(2);
    }
    deadline = now() + seconds;
}

__attribute__((unused)) static void ready(void)
{
    printf("%d ready\n", (int)getpid());
    fflush(stdout);
}

#endif
