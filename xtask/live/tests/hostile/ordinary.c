/* An ordinary program: main > first > second > third > spin, for ever. */
#include <stdio.h>

#define ALONE __attribute__((noinline, noipa))

ALONE unsigned long spin(unsigned long n)
{
    volatile unsigned long x = n;
    for (int i = 0; i < 10000000; i++)
        x = x * 3 + i;
    return x;
}
ALONE unsigned long third(unsigned long n) { return spin(n + 1) + 1; }
ALONE unsigned long second(unsigned long n) { return third(n + 1) + 1; }
ALONE unsigned long first(unsigned long n) { return second(n + 1) + 1; }

int main(void)
{
    puts("ready");
    fflush(stdout);
    for (unsigned long n = 0;; n++)
        first(n);
}
