/* main > first > second > third > spin, code made at run time (named by a perf map) > leaf, or nap. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALONE __attribute__((noinline, noipa))

typedef unsigned long (*function)(unsigned long);

static function made;

ALONE unsigned long spin(unsigned long n)
{
    volatile unsigned long x = n;
    for (int i = 0; i < 2000000; i++)
        x = x * 3 + i;
    return x;
}
ALONE unsigned long leaf(unsigned long n) { return spin(n) + 1; }
ALONE unsigned long nap(unsigned long n)
{
    usleep(5000);
    return n + 1;
}
ALONE unsigned long third(unsigned long n) { return spin(n) + made(n) + nap(n); }
ALONE unsigned long second(unsigned long n) { return third(n + 1) + 1; }
ALONE unsigned long first(unsigned long n) { return second(n + 1) + 1; }

static function make(void)
{
#ifdef __x86_64__
    unsigned char code[] = {
        0x55,                                           /* push %rbp */
        0x48, 0x89, 0xe5,                               /* mov %rsp, %rbp */
        0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, /* call leaf */
        0x5d, 0xc3,                                     /* pop %rbp, ret */
    };
    function callee = leaf;
    memcpy(code + 6, &callee, sizeof callee);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    memcpy(at, code, sizeof code);
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %lx made_by_owned\n", (unsigned long)at, (unsigned long)sizeof code);
    fclose(map);
    return (function)at;
#else
    return leaf;
#endif
}

int main(void)
{
    made = make();
    puts("ready");
    fflush(stdout);
    for (unsigned long n = 0;; n++)
        first(n);
}
