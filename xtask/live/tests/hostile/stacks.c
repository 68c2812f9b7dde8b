/* Calls two functions in random order, 1,900 frames deep: no stack is like another. */
#include <stdint.h>

#define ALONE __attribute__((noinline, noipa))

static uint64_t state = 88172645463325252ull;
static volatile unsigned long spun;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

ALONE static unsigned long leaf(void)
{
    for (int i = 0; i < 20000; i++)
        spun++;
    return spun;
}

ALONE static unsigned long zero(int depth);
ALONE static unsigned long one(int depth);

ALONE static unsigned long zero(int depth)
{
    return (depth ? (next() & 1 ? one : zero)(depth - 1) : leaf()) + 1;
}

ALONE static unsigned long one(int depth)
{
    return (depth ? (next() & 1 ? one : zero)(depth - 1) : leaf()) + 2;
}

int main(void)
{
    for (;;)
        spun += zero(1900);
}
