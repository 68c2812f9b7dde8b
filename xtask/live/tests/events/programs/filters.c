// A workload with the name in its first argument. It prints "ready", and for each line that it reads, it forks a child; both
// spin for as many milliseconds as the line says, and call a function. Then it prints the CPU time of both in nanoseconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS 5000

static volatile long spins;

static long used(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000L +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000L;
}

__attribute__((noinline)) long called(long argument) { return argument * 2 + spins * 0; }

static void work(long spin) {
    for (long end = used(RUSAGE_SELF) + spin; used(RUSAGE_SELF) < end;)
        for (int i = 0; i < 100000; i++) spins++;
    for (long i = 0; i < CALLS; i++) called(i);
}

static void *helper(void *argument) {
    prctl(PR_SET_NAME, "helper-1");
    for (long i = 0; i < CALLS; i++) called(i);
    return argument;
}

int main(int count, char **arguments) {
    char line[16];
    prctl(PR_SET_NAME, count > 1 ? arguments[1] : "filters");
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long before = used(RUSAGE_SELF) + used(RUSAGE_CHILDREN);
        pid_t child = fork();
        if (!child) {
            work(atol(line) * 1000000L);
            _exit(0);
        }
        work(atol(line) * 1000000L);
        pthread_t thread;
        pthread_create(&thread, 0, helper, 0);
        pthread_join(thread, 0);
        waitpid(child, 0, 0);
        printf("%ld\n", used(RUSAGE_SELF) + used(RUSAGE_CHILDREN) - before);
        fflush(stdout);
    }
}
