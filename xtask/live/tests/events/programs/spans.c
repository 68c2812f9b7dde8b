// A workload that measures itself. It prints "ready", waits for a line, works as its first argument says, and prints one line per
// thread: NAME TID, and up to two sums of nanoseconds or bytes.
//
//   locks    the time within pthread_mutex_lock
//   times    the time of a function, measured within and around it
//   states   the time off the CPU, and of that the time on a run queue: /proc/thread-self/schedstat
//   disk     the bytes written, by /proc/thread-self/io
//   latency  the time within pread of a file without the page cache, and the number of reads
//   wakes    the time within read of an empty pipe; the thread that writes to it
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct thread {
    const char *name;
    void (*run)(struct thread *);
    pthread_t id;
    int tid;
    long created, first, second;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static volatile long spins;
static const char *path;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void nap(long nanoseconds) {
    struct timespec time = {0, nanoseconds};
    nanosleep(&time, 0);
}

static void spin(long nanoseconds) {
    for (long end = now() + nanoseconds; now() < end;) spins++;
}

__attribute__((noinline)) static void take(struct thread *thread) {
    long before = now();
    pthread_mutex_lock(&lock);
    thread->first += now() - before;
}

static void locker(struct thread *thread) {
    for (int i = 0; i < 100; i++) {
        take(thread);
        nap(3000000);
        pthread_mutex_unlock(&lock);
    }
}

__attribute__((noinline)) long slow(struct thread *thread, int depth) {
    long before = now();
    nap(500000);
    if (depth) {
        long outside = now();
        slow(thread, depth - 1);
        thread->second += now() - outside;
    }
    thread->first += now() - before;
    return depth + spins * 0;
}

static void timer(struct thread *thread) {
    for (int i = 0; i < 200; i++) {
        long outside = now();
        slow(thread, 2);
        thread->second += now() - outside;
    }
}

static void schedstat(long values[2]) {
    char text[128] = {0};
    int file = open("/proc/thread-self/schedstat", O_RDONLY);
    if (read(file, text, sizeof text - 1) < 0 || sscanf(text, "%ld %ld", &values[0], &values[1]) != 2) abort();
    close(file);
}

static void measure_states(struct thread *thread) {
    long values[2];
    schedstat(values);
    thread->first = now() - thread->created - values[0];
    thread->second = values[1];
}

static void napper(struct thread *thread) {
    for (int i = 0; i < 300; i++) nap(3000000);
    measure_states(thread);
}

// All on one CPU.
static void spinner(struct thread *thread) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    spin(1000000000L);
    measure_states(thread);
}

static long written(void) {
    char text[512] = {0};
    int file = open("/proc/thread-self/io", O_RDONLY);
    if (read(file, text, sizeof text - 1) < 0) abort();
    close(file);
    return atol(strstr(text, "\nwrite_bytes: ") + 14);
}

__attribute__((noinline)) static void store(int file, void *block, size_t size, off_t at) {
    if (pwrite(file, block, size, at) != (ssize_t)size) abort();
}

static void writer(struct thread *thread) {
    enum { SIZE = 64 << 10, COUNT = 64 };
    int file = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
    void *block = aligned_alloc(4096, SIZE);
    if (file < 0 || posix_fallocate(file, 0, SIZE * COUNT) || fsync(file)) abort();
    memset(block, 1, SIZE);
    long before = written();
    for (int i = 0; i < COUNT; i++) store(file, block, SIZE, (off_t)i * SIZE);
    thread->first = written() - before;
    thread->second = SIZE * COUNT;
    close(file);
}

__attribute__((noinline)) static void load(struct thread *thread, int file, void *block, size_t size, off_t at) {
    long before = now();
    if (pread(file, block, size, at) != (ssize_t)size) abort();
    thread->first += now() - before;
    thread->second++;
}

static void reader(struct thread *thread) {
    enum { SIZE = 16 << 10, COUNT = 200 };
    int file = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
    void *block = aligned_alloc(4096, SIZE);
    if (file < 0) abort();
    memset(block, 1, SIZE);
    for (int i = 0; i < COUNT; i++)
        if (pwrite(file, block, SIZE, (off_t)i * SIZE) != SIZE) abort();
    if (fsync(file)) abort();
    // Not in the order of the disk.
    for (int i = 0; i < COUNT; i++) load(thread, file, block, SIZE, (off_t)(i * 77 % COUNT) * SIZE);
    close(file);
}

static int bell[2];

__attribute__((noinline)) static void ring(void) {
    if (write(bell[1], "x", 1) != 1) abort();
}

static void ringer(struct thread *thread) {
    for (int i = 0; i < 200; i++) {
        nap(3000000);
        ring();
        thread->first++;
    }
}

static void listener(struct thread *thread) {
    char byte;
    for (int i = 0; i < 200; i++) {
        long before = now();
        if (read(bell[0], &byte, 1) != 1) abort();
        thread->first += now() - before;
    }
}

static void *work(void *argument) {
    struct thread *thread = argument;
    prctl(PR_SET_NAME, thread->name);
    thread->tid = gettid();
    pthread_barrier_wait(&all);
    thread->run(thread);
    return 0;
}

static struct thread locks[] = {{"locker-a", locker}, {"locker-b", locker}, {0}};
static struct thread times[] = {{"timer", timer}, {0}};
static struct thread states[] = {
    {"napper", napper}, {"spinner-a", spinner}, {"spinner-b", spinner}, {"spinner-c", spinner}, {0}};
static struct thread wakes[] = {{"ringer", ringer}, {"listener", listener}, {0}};
static struct thread disk[] = {{"writer", writer}, {0}};
static struct thread latency[] = {{"reader", reader}, {0}};

int main(int count, char **arguments) {
    char line[16];
    if (count < 3) return 1;
    const char *mode = arguments[1];
    path = arguments[2];
    struct thread *threads = !strcmp(mode, "locks") ? locks : !strcmp(mode, "times") ? times : !strcmp(mode, "states") ? states : !strcmp(mode, "wakes") ? wakes : !strcmp(mode, "latency") ? latency : disk;
    if (pipe(bell)) return 1;
    int started = 0;
    while (threads[started].name) started++;
    pthread_barrier_init(&all, 0, started);
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    for (int i = 0; i < started; i++) {
        threads[i].created = now();
        pthread_create(&threads[i].id, 0, work, &threads[i]);
    }
    for (int i = 0; i < started; i++) pthread_join(threads[i].id, 0);
    for (int i = 0; i < started; i++)
        printf("%s %d %ld %ld\n", threads[i].name, threads[i].tid, threads[i].first, threads[i].second);
    puts("end");
    fflush(stdout);
    // The test ends the process after it has seen its mappings.
    fgets(line, sizeof line, stdin);
    return 0;
}
