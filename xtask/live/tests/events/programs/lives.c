// Does what disturbs a profiler's events. It prints "ready", waits for a line, works, and prints "end".
//
//   forks N     for N turns: a child that calls `hot`, allocates, executes itself, calls again and exits
//   child       the rest of such a child
//   sleepers N  N threads sleep for 50 ms, then for ever
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;
static volatile long sum, awake;

__attribute__((noinline)) void hot(long value) { sum += value; }

static void say(const char *word) {
    char line[16];
    puts(word);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(0);
}

static void touch(void) {
    hot(1);
    kept = malloc(1000);
}

static void *sleeper(void *argument) {
    usleep(50000);
    __atomic_add_fetch(&awake, 1, __ATOMIC_SEQ_CST);
    pause();
    return argument;
}

int main(int count, char **arguments) {
    if (count < 3) return 1;
    long number = atol(arguments[2]);
    if (!strcmp(arguments[1], "child")) {
        touch();
        return 0;
    }
    say("ready");
    if (!strcmp(arguments[1], "forks")) {
        for (int i = 0; i < number; i++) {
            if (!fork()) {
                touch();
                execl(arguments[0], arguments[0], "child", "0", (char *)0);
            }
            wait(0);
        }
    } else {
        pthread_attr_t small;
        pthread_t thread;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 16384);
        for (int i = 0; i < number; i++)
            if (pthread_create(&thread, &small, sleeper, 0)) return 1;
        while (awake < number) usleep(10000);
    }
    say("end");
    return 0;
}
