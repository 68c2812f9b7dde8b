/* main > l1 > l2 > l3 > leaf, each frame of another shape; the leaf works until the end. */
#include "truth.h"

ALONE int leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

/* Holds values over the call in every register that a callee preserves. */
ALONE int l3(int x)
{
    int a = x * 3, b = x * 5, c = x * 7, d = x * 11, e = x * 13, f = x * 17;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    int r = leaf(x + 1);
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    return r + a + b + c + d + e + f;
}

/* More than a page of locals. */
ALONE int l2(int x)
{
    volatile char room[5000];
    room[x] = 1;
    int r = l3(x + 1);
    return r + room[x];
}

/* Passes arguments on the stack. */
ALONE int spread(int a, int b, int c, int d, int e, int f, int g, int h)
{
    int r = l2(a);
    STAY();
    return r + b + c + d + e + f + g + h;
}

ALONE int l1(int x)
{
    int r = spread(x + 1, x, x, x, x, x, x + 2, x + 3);
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
