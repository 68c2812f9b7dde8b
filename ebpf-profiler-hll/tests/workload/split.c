/* A function with a cold part, a function with a tail call, and a function in one part. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline, cold)) void complain(int number, char *place) { fprintf(stderr, "%d %p\n", number, place); }

__attribute__((noinline)) int whole(int number) { return printf("%d\n", number); }

__attribute__((noinline)) int jumps(int number) { return whole(number + 1); }

__attribute__((noinline)) int split(int number) {
    char place[64];
    snprintf(place, sizeof place, "%d", number);
    if (__builtin_expect(place[0] == '7', 0)) {
        complain(number, place);
        for (int index = 0; index < number; index++) complain(index, place + index % 8);
    }
    return whole(place[1]) + atoi(place);
}

int main(int count, char **arguments) { return split(count) + jumps(count); }
