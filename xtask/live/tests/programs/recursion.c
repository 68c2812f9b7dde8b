/* main > descend > descend > ... > leaf: as many levels as the second argument says. */
#include "truth.h"

ALONE int leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

ALONE int descend(int levels)
{
    volatile char room[40];
    room[levels & 15] = 1;
    int r = levels > 1 ? descend(levels - 1) : leaf(levels);
    return r + room[levels & 15];
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int levels = argc > 2 ? atoi(argv[2]) : 10;
    ready();
    int r = descend(levels);
    STAY();
    return r == 12345;
}
