// Allocates known sums in a thread. It prints "ready", waits for a line, allocates, prints "end", and waits for another line.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static void *volatile kept;

__attribute__((noinline)) static void plain(void) { kept = malloc(100); }
__attribute__((noinline)) static void zeroed(void) { kept = calloc(7, 64); }
__attribute__((noinline)) static void grown(void) { kept = realloc(kept, 4000); }
__attribute__((noinline)) static void aligned(void) { kept = aligned_alloc(64, 640); }
__attribute__((noinline)) static void posix(void) {
    void *at;
    if (posix_memalign(&at, 128, 1280)) abort();
    kept = at;
}

static void *work(void *argument) {
    prctl(PR_SET_NAME, "allocator");
    for (int i = 0; i < 500; i++) {
        plain();
        free(kept);
        zeroed();
        grown();
        free(kept);
        aligned();
        free(kept);
        posix();
        free(kept);
    }
    return argument;
}

int main(void) {
    char line[16];
    pthread_t thread;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    puts("end");
    fflush(stdout);
    return !fgets(line, sizeof line, stdin);
}
