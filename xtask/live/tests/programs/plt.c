/* main > l1 > caller > (plt) > plt_leaf of a library of our own: most ticks hit the way through the PLT. */
#include "truth.h"

int plt_leaf(int x);

ALONE int caller(int x)
{
    int r = 0;
    for (int i = 0; i < 1 << 24; i++) {
        r += plt_leaf(x);
        STAY();
    }
    return r;
}

ALONE int l1(int x)
{
    int r = 0;
    do {
        r += caller(x + 1);
    } while (now() < deadline);
    return r + 1;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    plt_leaf(argc); /* bound now: the resolver is not what we look at */
    ready();
    int r = l1(argc);
    STAY();
    return r == 12345;
}
