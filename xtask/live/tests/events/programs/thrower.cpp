// Throws 2,000 exceptions, every fourth of them twice, after a line on its input.
#include <cstdio>
#include <stdexcept>

#define NOINLINE __attribute__((noinline))

static volatile int turns;

NOINLINE static void thrower(int number) {
    if (number >= 0) throw number;
    turns++;
}

NOINLINE static void passer(int number) {
    try {
        thrower(number);
    } catch (int caught) {
        if (caught % 4 == 0) throw;
    }
    turns++;
}

NOINLINE static void catcher(int number) {
    try {
        passer(number);
    } catch (int) {
        turns++;
    }
}

int main() {
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    for (int number = 0; number < 2000; number++) catcher(number);
    puts("end");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != nullptr;
}
