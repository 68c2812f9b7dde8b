// main > l1 > l2 > l3 > thrower, and what an exception runs on its way back: the destructor of a frame that is being
// left (main > l1 > l2 > ~Guard > cleanup_leaf) and the handler (main > l1 > caught > caught_leaf).
//
// SECONDS long|quick: the destructor and the handler work for some 20 ms, or not at all: then most ticks hit the
// machinery between throw and catch.
#include "truth.h"
#include <cstring>
#include <stdexcept>

static bool quick;

ALONE void cleanup_leaf()
{
    BURN();
}

struct Guard {
    ALONE ~Guard()
    {
        if (!quick)
            cleanup_leaf();
        STAY();
    }
};

ALONE int thrower(int x)
{
    if (x >= 0)
        throw std::runtime_error("on its way");
    return x;
}

ALONE int l3(int x)
{
    int r = thrower(x + 1);
    STAY();
    return r + 1;
}

ALONE int l2(int x)
{
    Guard guard;
    int r = l3(x + 1);
    STAY();
    return r + 1;
}

ALONE void caught_leaf()
{
    BURN();
}

ALONE int caught(const std::exception &error)
{
    if (!quick)
        caught_leaf();
    STAY();
    return error.what()[0];
}

ALONE int l1(int x)
{
    try {
        int r = l2(x + 1);
        STAY();
        return r + 1;
    } catch (const std::runtime_error &error) {
        int r = caught(error);
        STAY();
        return r;
    }
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    quick = argc > 2 && std::strcmp(argv[2], "quick") == 0;
    ready();
    int r = 0;
    do {
        r += l1(argc);
    } while (now() < deadline);
    return r == 12345;
}
