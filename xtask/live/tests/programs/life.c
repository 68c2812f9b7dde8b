/* A short life of its own: main > l1 > l2 > leaf for so many milliseconds of processor time (first argument; 0: ends
 * at once). */
#include "truth.h"

static double end;

ALONE double spent(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

ALONE int leaf(int x)
{
    while (spent() < end)
        for (int i = 0; i < 20000; i++)
            work++;
    return x;
}

ALONE int l2(int x)
{
    int r = leaf(x + 1);
    STAY();
    return r + 1;
}

ALONE int l1(int x)
{
    int r = l2(x + 1);
    STAY();
    return r + 1;
}

int main(int argc, char **argv)
{
    double milliseconds = argc > 1 ? atof(argv[1]) : 0;
    end = (milliseconds < 10000 ? milliseconds : 10000) / 1000;
    int r = milliseconds > 0 ? l1(argc) : 0;
    STAY();
    return r == 12345;
}
