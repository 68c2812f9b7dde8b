// Threads that call a function, touch new memory and yield the CPU, and count these events.
//
//   reentrancy N      prints "ready", waits for a line; four threads do N rounds each; then, a line for each thread:
//                     thread id, calls of `hot`, page faults, switches, CPU time in nanoseconds, all within `work`
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define PAGES 64

static long rounds;
static long results[THREADS][5];

__attribute__((noinline)) void hot(volatile char *memory, long round)
{
    // A page fault, unless the page is there already.
    memory[round % PAGES * 4096] = 1;
}

__attribute__((noinline)) void work(volatile char *memory)
{
    for (long round = 0; round < rounds; round++) {
        if (round % PAGES == 0)
            madvise((void *)memory, PAGES * 4096, MADV_DONTNEED);
        hot(memory, round);
        if (round % 4 == 0)
            sched_yield();
    }
    __asm__ volatile("" ::: "memory");
}

static long nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000l + time.tv_nsec;
}

static void *run(void *result)
{
    long *counts = result;
    struct rusage before, after;
    char *memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    madvise(memory, PAGES * 4096, MADV_NOHUGEPAGE);
    getrusage(RUSAGE_THREAD, &after);
    long start = nanoseconds();
    getrusage(RUSAGE_THREAD, &before);
    work(memory);
    getrusage(RUSAGE_THREAD, &after);
    counts[0] = syscall(SYS_gettid);
    counts[1] = rounds;
    counts[2] = after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt;
    counts[3] = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw;
    counts[4] = nanoseconds() - start;
    return NULL;
}

int main(int argc, char **argv)
{
    char line[16];
    pthread_t threads[THREADS];
    rounds = argc > 1 ? atol(argv[1]) : 1000;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 0;
    for (int number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, run, results[number]);
    for (int number = 0; number < THREADS; number++) {
        pthread_join(threads[number], NULL);
        long *counts = results[number];
        printf("%ld %ld %ld %ld %ld\n", counts[0], counts[1], counts[2], counts[3], counts[4]);
    }
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}
