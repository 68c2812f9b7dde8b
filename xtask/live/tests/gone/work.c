// Spins for 50 ms of CPU time in functions whose names have the number of the copy: AAAAAA is replaced.
#include <time.h>

#ifndef SECONDS
#define SECONDS 0.05
#endif

// Not in the hash table of exported names, which a copy does not change.
#define ALONE __attribute__((noinline, noclone, visibility("hidden")))

static inline __attribute__((always_inline)) unsigned long inlined_AAAAAA(unsigned long x)
{
    for (int i = 0; i < 20000; i++)
        x = x * 3 + (x >> 7) + i;
    return x;
}

ALONE unsigned long inner_AAAAAA(unsigned long x)
{
    return inlined_AAAAAA(x) + 1;
}

ALONE unsigned long outer_AAAAAA(unsigned long x)
{
    return inner_AAAAAA(x) + 1;
}

static double used(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

unsigned long run(void)
{
    double end = used() + SECONDS;
    unsigned long x = 0;
    while (used() < end)
        for (int i = 0; i < 10; i++)
            x = outer_AAAAAA(x);
    return x;
}

#ifdef PROGRAM
int main(void)
{
    return run() == 1;
}
#endif
