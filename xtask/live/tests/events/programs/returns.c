// Works in functions whose returns are probed, in known chains from main. It prints "ready", waits for a line, works, and prints "end".
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { DEPTH = 40, TURNS = 400, HOT = 50 };

#define OWN __attribute__((noinline))

static volatile long sum;
static void *volatile kept;
static jmp_buf point;

// 100 us or more.
OWN void spin(void) {
    for (long i = 0; i < 100000; i++) sum += i;
}

OWN void spin_nested(void) { spin(); sum++; }
OWN void probed_inner(void) { spin_nested(); sum++; }
OWN void between(void) { probed_inner(); sum++; }
OWN void probed_outer(void) { between(); sum++; }
OWN void nested(void) { probed_outer(); spin(); sum++; }

OWN void spin_deep(void) { spin(); sum++; }
OWN void deep(int depth) {
    if (depth > 1) deep(depth - 1); else spin_deep();
    sum++;
}

OWN void spin_tail(void) { spin(); sum++; }
OWN void tail_second(void) { spin_tail(); sum++; }
__attribute__((noinline, optimize("optimize-sibling-calls"))) void tail_first(void) { sum++; tail_second(); }
OWN void tails(void) { tail_first(); sum++; }

OWN void jumper(void) { if (sum) longjmp(point, 1); sum++; }
OWN void spin_plain(void) { spin(); sum++; }
OWN void plain_after(void) { spin_plain(); sum++; }
OWN void spin_after(void) { spin(); sum++; }
OWN void after_jump(void) { spin_after(); sum++; }
OWN void jumps(void) {
    if (!setjmp(point)) jumper();
    plain_after();
    after_jump();
    sum++;
}

OWN void hot(void) { sum++; }
OWN void call_hot(void) {
    for (int i = 0; i < HOT; i++) hot();
    sum++;
}

OWN void allocate(void) {
    kept = malloc(100);
    free(kept);
    sum++;
}

OWN void work(void) {
    for (int turn = 0; turn < TURNS; turn++) {
        nested();
        deep(DEPTH);
        tails();
        jumps();
        call_hot();
        for (int i = 0; i < HOT; i++) allocate();
    }
    sum++;
}

static void say(const char *word) {
    char line[16];
    puts(word);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(0);
}

int main(void) {
    say("ready");
    work();
    say("end");
    return sum == 0;
}
