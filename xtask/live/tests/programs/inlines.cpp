// main > outer > middle (inlined) > inner (inlined) > leaf: with debug data the inlined functions are frames too.
#include "truth.h"

namespace shop {

ALONE int leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

struct Counter {
    int value;

    __attribute__((always_inline)) inline int inner(int x)
    {
        int r = leaf(x + value);
        STAY();
        return r + 1;
    }

    template <typename T> __attribute__((always_inline)) inline int middle(T x)
    {
        return inner(static_cast<int>(x)) + 1;
    }
};

ALONE int outer(int x)
{
    Counter counter{x};
    return counter.middle(x + 1L) + 1;
}

} // namespace shop

int main(int argc, char **argv)
{
    begin(argc, argv);
    ready();
    int r = shop::outer(argc);
    STAY();
    return r == 12345;
}
