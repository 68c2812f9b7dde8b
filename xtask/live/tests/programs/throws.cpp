// main > l1 > l2 > l3 > thrower, and nothing but exceptions: most samples are in the unwinder. The frames that it leaves
// and the one that catches have different sizes, so a stack pointer of one and a return address of another give no stack.
#include "truth.h"

struct Guard {
    ~Guard()
    {
        work++;
    }
};

template <unsigned SIZE> struct Room {
    volatile char bytes[SIZE];
};

ALONE int thrower(int x)
{
    if (x >= 0)
        throw x;
    return x;
}

ALONE int l3(int x)
{
    Room<24> room;
    Guard guard;
    room.bytes[0] = x;
    int r = thrower(x + 1);
    return r + room.bytes[0];
}

ALONE int l2(int x)
{
    Room<200> room;
    Guard guard;
    room.bytes[0] = x;
    int r = l3(x + 1);
    return r + room.bytes[0];
}

ALONE int l1(int x)
{
    Room<1000> room;
    room.bytes[0] = x;
    try {
        int r = l2(x + 1);
        return r + room.bytes[0];
    } catch (int error) {
        work++;
        return error + room.bytes[0];
    }
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    ready();
    int r = 0;
    do {
        for (int i = 0; i < 100; i++)
            r += l1(argc);
    } while (now() < deadline);
    return r == 12345;
}
