// Built twice: as a library with three functions, and as a program that loads it after a line on its input and calls each function
// 1,000 times.
#ifdef LIBRARY
volatile int steps;
int step_one(int number) { return steps = number; }
int step_two(int number) { return steps = number + 1; }
int step_three(int number) { return steps = number + 2; }
int other(int number) { return steps = number + 3; }
#else
#include <dlfcn.h>
#include <stdio.h>

typedef int (*step)(int);

__attribute__((noinline)) static void walker(void *library) {
    step steps[] = {dlsym(library, "step_one"), dlsym(library, "step_two"), dlsym(library, "step_three"), dlsym(library, "other")};
    for (int turn = 0; turn < 1000; turn++)
        for (int number = 0; number < 4; number++) steps[number](turn);
}

int main(int count, char **arguments) {
    char line[16];
    puts("ready");
    fflush(stdout);
    if (count < 2 || !fgets(line, sizeof line, stdin)) return 1;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return 2;
    walker(library);
    puts("end");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}
#endif
