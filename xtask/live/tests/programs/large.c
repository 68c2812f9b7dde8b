/* main > l1 > large > leaf, of which large has 64 KB of locals: more than a copy of the top of the stack holds. */
#include "truth.h"

ALONE int leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

ALONE int large(int x)
{
    volatile char room[1 << 16];
    room[x] = 1;
    int r = leaf(x + 1);
    return r + room[x];
}

ALONE int l1(int x)
{
    int r = large(x + 1);
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
