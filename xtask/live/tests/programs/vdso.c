/* main > l1 > leaf > clock_gettime > vDSO, without pause. */
#include "truth.h"

ALONE int leaf(int x)
{
    struct timespec t;
    double end = deadline;
    do {
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while ((double)t.tv_sec + (double)t.tv_nsec * 1e-9 < end);
    return x;
}

ALONE int l1(int x)
{
    int r = leaf(x + 1);
    STAY();
    return r + 1;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    ready();
    int r = l1(argc);
    STAY();
    return r == 12345;
}
