// A program that counts the events that it causes until its input ends.
//
//   budget calls N    N calls of `allocate` each millisecond, most with small sizes and one of 16 with a large one
//   budget waits N    two threads that wait for one another N times each millisecond, and four that sleep
//
// It prints "ready", waits for a line, prints the counts so far for each further line, and ends with its input:
//
//   calls             number of calls, sum of their sizes
//   waits             number of turns, nanoseconds off the CPU: elapsed time less CPU time of each thread; at the end only
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int is_over;
static volatile uint64_t count, sum;

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void pause_for(long nanoseconds)
{
    struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    nanosleep(&time, NULL);
}

__attribute__((noinline)) void allocate(uint64_t size)
{
    sum += size;
    count += 1;
    __asm__ volatile("" ::: "memory");
}

// Frames that a sample unwinds.
__attribute__((noinline)) void deeper(int depth, uint64_t size)
{
    if (depth > 0)
        deeper(depth - 1, size);
    else
        allocate(size);
    __asm__ volatile("" ::: "memory");
}

static void *calls(void *each)
{
    uint64_t number = 0;
    while (!is_over) {
        for (long call = 0; call < (long)each; call++, number++)
            deeper(40, number % 16 == 0 ? 65536 : 16 + number * 7 % 512);
        pause_for(1000000);
    }
    return NULL;
}

static pthread_barrier_t begun;

// Adds the time off the CPU of the calling thread, from a moment at which all threads run.
static void timed(void (*work)(void *), void *argument)
{
    pthread_barrier_wait(&begun);
    uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID), start = now(CLOCK_MONOTONIC);
    work(argument);
    uint64_t elapsed = now(CLOCK_MONOTONIC) - start;
    __atomic_fetch_add(&sum, elapsed - (now(CLOCK_THREAD_CPUTIME_ID) - cpu), __ATOMIC_SEQ_CST);
}

static int there[2], back[2];
static long turns;

static void ask(void *_)
{
    char byte = 0;
    while (!is_over) {
        for (long turn = 0; turn < turns; turn++) {
            if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
                abort();
            count += 1;
        }
        pause_for(1000000);
    }
    close(there[1]);
}

static void answer(void *_)
{
    char byte;
    while (read(there[0], &byte, 1) == 1)
        if (write(back[1], &byte, 1) != 1)
            abort();
}

static void sleeper(void *_)
{
    while (!is_over)
        pause_for(20000000);
}

static void *waits(void *work)
{
    timed((void (*)(void *))work, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    char line[16];
    pthread_t threads[6];
    int number = 0, is_calls = argc > 1 && !strcmp(argv[1], "calls");
    turns = argc > 2 ? atol(argv[2]) : 1;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 0;
    if (is_calls) {
        pthread_create(&threads[number++], NULL, calls, (void *)turns);
    } else {
        if (pipe(there) || pipe(back))
            abort();
        pthread_barrier_init(&begun, NULL, 6);
        pthread_create(&threads[number++], NULL, waits, ask);
        pthread_create(&threads[number++], NULL, waits, answer);
        while (number < 6)
            pthread_create(&threads[number++], NULL, waits, sleeper);
    }
    while (fgets(line, sizeof line, stdin)) {
        printf("%lu %lu\n", count, sum);
        fflush(stdout);
    }
    is_over = 1;
    while (number > 0)
        pthread_join(threads[--number], NULL);
    printf("%lu %lu\n", count, sum);
    return 0;
}
