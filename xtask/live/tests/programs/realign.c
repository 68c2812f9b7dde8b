/* main > l1 > l2 > l3 > leaf where frames align the stack anew and have sizes known only at run time: what the
 * compiler finds its caller's frame by is then no fixed distance from any register. */
#include "truth.h"
#include <alloca.h>
#include <string.h>

ALONE int leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

/* An array of run-time length. */
ALONE int l3(int x)
{
    volatile char row[x * 16];
    row[x] = 1;
    int r = leaf(x + 1);
    return r + row[x];
}

/* Alignment and alloca together: the caller's frame is found through a register of its own. */
ALONE int l2(int x)
{
    volatile double wide[8] __attribute__((aligned(64)));
    char *room = (char *)alloca((size_t)x * 40);
    memset(room, x, (size_t)x * 40);
    wide[x & 7] = room[x];
    int r = l3(x + 1);
    return r + (int)wide[x & 7] + room[1];
}

/* Alignment and arguments on the stack. */
ALONE int wide_arguments(int a, int b, int c, int d, int e, int f, int g, int h)
{
    volatile double wide[4] __attribute__((aligned(32)));
    wide[a & 3] = g;
    int r = l2(a);
    return r + b + c + d + e + f + h + (int)wide[a & 3];
}

__attribute__((force_align_arg_pointer)) ALONE int l1(int x)
{
    int r = wide_arguments(x + 1, 1, 2, 3, 4, 5, x + 6, x + 7);
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
