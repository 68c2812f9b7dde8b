// A workload that counts its own events. It prints "ready", waits for a line, works, and prints one line per thread:
//
//   NAME TID CREATED OFF-CPU-NANOSECONDS FAULTS
//
// CREATED is the time before its creation. The time off the CPU is the thread's time since its creation without its time on a CPU, both of the kernel: clock_gettime
// and /proc/thread-self/schedstat. Page faults are of getrusage.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CALLS 20000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int there[2], back[2];
static volatile int spins;
// All threads begin together: spinning ones would preempt the creation of others, after its time was taken.
static pthread_barrier_t all;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static long on_cpu(void) {
    char text[128];
    int file = open("/proc/thread-self/schedstat", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    return atol(text);
}

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void spin(long nanoseconds) {
    for (long end = now() + nanoseconds; now() < end;) spins++;
}

__attribute__((noinline)) long called(long argument) { return argument * 2 + spins * 0; }

__attribute__((noinline)) static void nap(void) {
    struct timespec time = {0, 3000000};
    nanosleep(&time, 0);
}

static void sleeper(void) {
    for (int i = 0; i < 500; i++) nap();
}

static void asker(void) {
    char byte = 0;
    for (int i = 0; i < 3000; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) abort();
}

static void answerer(void) {
    char byte = 0;
    for (int i = 0; i < 3000; i++)
        if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) abort();
}

static void locker(void) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&lock);
        nap();
        pthread_mutex_unlock(&lock);
        spin(100000);
    }
}

static char data[4096];

// Writes that wait for the disk.
static void storer(void) {
    enum { SIZE = 4096 };
    void *block = aligned_alloc(SIZE, SIZE);
    int file = open(data, O_RDWR | O_CREAT | O_DIRECT | O_DSYNC, 0600);
    if (file < 0 || !block) abort();
    memset(block, 1, SIZE);
    for (int i = 0; i < 300; i++)
        if (pwrite(file, block, SIZE, (off_t)(i % 64) * SIZE) != SIZE) abort();
    close(file);
    free(block);
}

static void spinner(void) { spin(1500000000L); }

static void caller(void) {
    for (long i = 0; i < CALLS; i++) called(i);
}

static void toucher(void) {
    size_t size = 5000 * 4096;
    for (int turn = 0; turn < 4; turn++) {
        char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, size, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
        munmap(memory, size);
    }
}

static void reader(void) {
    char byte;
    int file = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < CALLS; i++)
        if (read(file, &byte, 1) != 1) abort();
    close(file);
}

struct work {
    const char *mode, *name;
    void (*run)(void);
};

static const struct work works[] = {
    {"waits", "sleeper", sleeper}, {"waits", "asker", asker},     {"waits", "answerer", answerer},
    {"waits", "locker-a", locker}, {"waits", "locker-b", locker}, {"waits", "spinner-a", spinner},
    {"waits", "spinner-b", spinner}, {"waits", "spinner-c", spinner}, {"waits", "storer", storer},
    {"calls", "caller", caller},    {"calls", "toucher", toucher},   {"calls", "reader", reader},
};

struct thread {
    pthread_t id;
    const struct work *work;
    long created, off_cpu, faults;
    int tid;
};

static void *work(void *argument) {
    struct thread *thread = argument;
    prctl(PR_SET_NAME, thread->work->name);
    thread->tid = gettid();
    pthread_barrier_wait(&all);
    long before = faults();
    thread->work->run();
    thread->faults = faults() - before;
    thread->off_cpu = now() - thread->created - on_cpu();
    return 0;
}

// A thread that is joined still waits for its CPU, to end.
static int runs(int count, const struct thread *threads) {
    char path[64];
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/proc/self/task/%d", threads[i].tid);
        if (!access(path, F_OK)) return 1;
    }
    return 0;
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "waits";
    static struct thread threads[16];
    int started = 0;
    char line[16];
    if (pipe(there) || pipe(back)) return 1;
    snprintf(data, sizeof data, "%s.data", arguments[0]);
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    count = 0;
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) count += !strcmp(works[i].mode, mode);
    pthread_barrier_init(&all, 0, count);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (!strcmp(works[i].mode, mode)) {
            struct thread *thread = &threads[started++];
            thread->work = &works[i], thread->created = now();
            pthread_create(&thread->id, 0, work, thread);
        }
    for (int i = 0; i < started; i++) pthread_join(threads[i].id, 0);
    while (runs(started, threads)) usleep(1000);
    // And leave their CPUs.
    usleep(100000);
    for (int i = 0; i < started; i++)
        printf("%s %d %ld %ld %ld\n", threads[i].work->name, threads[i].tid, threads[i].created, threads[i].off_cpu,
               threads[i].faults);
    fflush(stdout);
    // The test ends the process after it has seen its mappings.
    fgets(line, sizeof line, stdin);
    return 0;
}
