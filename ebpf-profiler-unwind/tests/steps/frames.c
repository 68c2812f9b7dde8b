/* Frames of many kinds: leaves, recursion, variable and aligned frames, calls through pointers and the linkage table, signals,
 * and longjmp. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int sink;
static jmp_buf back;

__attribute__((noinline)) static int leaf(int x) { return x * 3 + sink; }

__attribute__((noinline)) static int recursive(int depth) {
    return depth == 0 ? leaf(depth) : recursive(depth - 1) + leaf(depth);
}

__attribute__((noinline)) static int variable(int size) {
    char bytes[size];
    memset(bytes, size, size);
    return bytes[size / 2] + leaf(size);
}

__attribute__((noinline)) static int aligned(int x) {
    int words[16] __attribute__((aligned(64)));
    for (int i = 0; i < 16; i++) words[i] = leaf(x + i);
    return words[x & 15];
}

__attribute__((noinline)) static int compare(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static int sorted(int count) {
    int numbers[64];
    for (int i = 0; i < 64; i++) numbers[i] = (i * 37 + count) % 64;
    qsort(numbers, 64, sizeof *numbers, compare);
    return numbers[count & 63];
}

__attribute__((noinline)) static void jump(int depth) {
    if (depth == 0) longjmp(back, 1);
    jump(depth - 1);
    sink++;
}

static void handler(int number) { sink += leaf(number); }

__attribute__((noinline)) static int dispatch(int x) {
    switch (x % 9) {
        case 0: return leaf(x);
        case 1: return recursive(x % 5);
        case 2: return variable(x % 100 + 1);
        case 3: return aligned(x);
        case 4: return sorted(x);
        case 5: return (int)(sin(x) * 100 + pow(x, 1.5));
        case 6: if (!setjmp(back)) jump(x % 4); return 1;
        case 7: raise(SIGUSR1); return 2;
        default: {
            char text[64];
            return snprintf(text, sizeof text, "%d %f %s", x, x / 3.0, "text");
        }
    }
}

int main(void) {
    signal(SIGUSR1, handler);
    for (int i = 0; i < 60; i++) sink += dispatch(i);
    char *copy = strdup("a string that is copied, searched and freed");
    sink += strlen(copy) + (strchr(copy, 'f') != 0) + (strstr(copy, "searched") != 0) + strcmp(copy, "a string");
    free(copy);
    return 0;
}
