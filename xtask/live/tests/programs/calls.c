/* main > l1 > l2 > l3 > leaf again and again, with next to no work in between: ticks hit every instruction of
 * prologues and epilogues. */
#include "truth.h"

ALONE int leaf(int x)
{
    work++;
    return x;
}

ALONE int l3(int x)
{
    int a = x * 3, b = x * 5;
    __asm__ volatile("" : "+r"(a), "+r"(b));
    int r = leaf(x + 1);
    __asm__ volatile("" : "+r"(a), "+r"(b));
    return r + a + b;
}

ALONE int l2(int x)
{
    volatile char room[300];
    room[x & 3] = 1;
    int r = l3(x + 1);
    return r + room[x & 3];
}

ALONE int l1(int x)
{
    int r = l2(x + 1);
    STAY();
    return r + 1;
}

ALONE int round_of_calls(void)
{
    int r = 0;
    for (int i = 0; i < 1 << 22; i++)
        r += l1(i & 3);
    return r;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    ready();
    int r = 0;
    do {
        r += round_of_calls();
    } while (now() < deadline);
    return r == 12345;
}
