// Allocates memory of which a known part stays in use. It prints a word after each step, and waits for a line before the next.
//
//   leak      ready, allocate, "held", free a part, "end"
//   children  ready, start children that inherit memory, leak and exit, "held", execute itself, "end"
//   many      ready, allocate more than a profiler follows, "held", free all, "end"
//   series    as many, again and again: "held" after the allocations, "free" after they are freed, until the input ends
//   pour      ready, allocate in two threads for six seconds and keep a half, print its bytes, "held", free all, "end"
//   storm     ready, allocate and free in two threads for two seconds, print the number of calls as "end N"
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 400, MANY = 200000 };

static void *volatile plain_ones[TURNS], *volatile zeroed_ones[TURNS], *volatile grown_ones[TURNS], *volatile aligned_ones[TURNS];
static void *volatile handed_ones[TURNS], *volatile posix_ones[TURNS];
static void *volatile kept;

#define OWN __attribute__((noinline)) static

OWN void plain(int i) { plain_ones[i] = malloc(100); }
OWN void zeroed(int i) { zeroed_ones[i] = calloc(7, 64); }
OWN void seed(int i) { grown_ones[i] = malloc(50 + i % 3); }
OWN void grow(int i) { grown_ones[i] = realloc(grown_ones[i], 4000); }
OWN void grow_in_vain(int i) {
    // It fails, and the memory stays.
    if (realloc(grown_ones[i], (size_t)-4096 >> 1)) abort();
}
OWN void aligned(int i) { aligned_ones[i] = aligned_alloc(64, 640); }
OWN void posix(int i) {
    void *at;
    if (posix_memalign(&at, 128, 1280)) abort();
    posix_ones[i] = at;
}
OWN void handed(int i) { handed_ones[i] = malloc(300); }
OWN void churn(void) {
    kept = malloc(200);
    free(kept);
    kept = realloc(0, 700);
    kept = realloc(kept, 70000);
    free(kept);
}

static void *take_over(void *argument) {
    for (int i = 0; i < TURNS; i++) free(handed_ones[i]);
    return argument;
}

static void say(const char *word) {
    char line[16];
    puts(word);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(0);
}

OWN void allocate(void) {
    for (int i = 0; i < TURNS; i++) {
        plain(i);
        zeroed(i);
        seed(i);
        grow(i);
        grow_in_vain(i);
        aligned(i);
        posix(i);
        handed(i);
        churn();
    }
}

static void leak(void) {
    pthread_t thread;
    allocate();
    pthread_create(&thread, 0, take_over, 0);
    pthread_join(thread, 0);
    say("held");
    for (int i = 0; i < TURNS; i += 2) free(plain_ones[i]);
    for (int i = 0; i < TURNS; i++) free(grown_ones[i]);
    for (int i = 0; i < TURNS; i++) free(posix_ones[i]);
}

OWN void child(void) {
    for (int i = 0; i < TURNS; i++) free(plain_ones[i]);
    allocate();
    exit(0);
}

static void children(char *program) {
    for (int i = 0; i < TURNS; i++) plain(i);
    for (int i = 0; i < 8; i++) {
        if (!fork()) child();
        wait(0);
    }
    say("held");
    execl(program, program, "wait", (char *)0);
}

static void many(void) {
    static void *all[MANY];
    for (int i = 0; i < MANY; i++) all[i] = malloc(16);
    say("held");
    for (int i = 0; i < MANY; i++) free(all[i]);
}

static void series(void) {
    for (;;) {
        many();
        say("free");
    }
}

/* Fewer than the kernel's map of samples that have not ended has room for, even if all are sampled. */
enum { POURED = 60000 };

static struct kept {
    void *all[POURED];
    long count, bytes;
} poured[2];

static void *pour_into(void *argument) {
    struct kept *kept = argument;
    time_t end = time(0) + 6;
    while (time(0) < end && kept->count + 10 < POURED) {
        for (int i = 0; i < 50; i++) {
            size_t size = 128 + i * 8;
            void *volatile at = malloc(size);
            if (i % 5) {
                free(at);
            } else {
                kept->all[kept->count++] = at;
                kept->bytes += size;
            }
        }
        usleep(1000);
    }
    return argument;
}

static void pour(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, pour_into, &poured[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%ld\n", poured[0].bytes + poured[1].bytes);
    say("held");
    for (int i = 0; i < 2; i++)
        for (long k = 0; k < poured[i].count; k++) free(poured[i].all[k]);
}

static long calls[2];

static void *storm_of(void *argument) {
    long *count = argument;
    time_t end = time(0) + 2;
    while (time(0) < end)
        for (int i = 0; i < 100; i++, ++*count) {
            void *volatile at = malloc(64 + i);
            free(at);
        }
    return argument;
}

static void storm(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, storm_of, &calls[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%ld\n", calls[0] + calls[1]);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "leak";
    // The buffer of the output is not part of the sums.
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    if (!strcmp(mode, "wait")) say("end");
    else say("ready");
    if (!strcmp(mode, "leak")) leak();
    if (!strcmp(mode, "children")) children(arguments[0]);
    if (!strcmp(mode, "many")) many();
    if (!strcmp(mode, "series")) series();
    if (!strcmp(mode, "pour")) pour();
    if (!strcmp(mode, "storm")) storm();
    if (strcmp(mode, "wait")) say("end");
    return 0;
}
