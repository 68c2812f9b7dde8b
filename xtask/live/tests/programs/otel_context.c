// Threads that publish contexts as OpenTelemetry specifies it (OTEP 4947), and the context of the process (OTEP 4719).
//
//     otel_context WAY...     works until it is killed; ways: see `main`
//
// Each context belongs to a function, which is the truth. With OWN the variable is of this file, else of a library.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#ifdef LOADED
#include <dlfcn.h>
#endif

// musl has no names for these.
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

struct record {
    uint8_t trace[16], span[8], valid, flags;
    uint16_t size;
    uint8_t attributes[2048];
} __attribute__((packed, aligned(2)));

#if defined OWN
__thread struct record *otel_thread_ctx_v1;
static struct record *volatile *variable(void) { return (struct record *volatile *)&otel_thread_ctx_v1; }
#elif defined LOADED
static struct record *volatile *(*variable)(void);
#else
struct record *volatile *variable(void);
#endif

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void spin(int microseconds) {
    uint64_t end = now(CLOCK_MONOTONIC) + microseconds * 1000ull;
    while (now(CLOCK_MONOTONIC) < end)
        for (volatile int i = 0; i < 500; i++)
            ;
}

#define WORK(name, microseconds)                                                                                                \
    __attribute__((noinline)) void name(void) {                                                                                 \
        spin(microseconds);                                                                                                     \
        __asm__ volatile("");                                                                                                   \
    }
WORK(work0, 50)
WORK(work1, 100)
WORK(work2, 150)
WORK(work3, 200)
WORK(without, 60)
WORK(updating, 60)
WORK(hostile, 100)
static void (*const works[])(void) = {work0, work1, work2, work3};

static void add(struct record *record, int key, const char *value) {
    uint8_t *to = record->attributes + record->size;
    to[0] = key;
    to[1] = strlen(value);
    memcpy(to + 2, value, to[1]);
    record->size += 2 + to[1];
}

static atomic_int late_key;

static void fill(struct record *record, int number, int thread) {
    memset(record->trace, 16 + number, 16);
    memset(record->span, 32 + number, 8);
    record->flags = 1;
    record->size = 0;
    char text[64];
    add(record, 0, "stale");
    snprintf(text, sizeof text, "thread %d", thread);
    add(record, 1, text);
    add(record, 200, "of no key");
    snprintf(text, sizeof text, "/work%d", number);
    add(record, 0, text);
    if (late_key)
        add(record, 3, "late");
}

static int swaps;

static void *work(void *argument) {
    int thread = (intptr_t)argument;
    struct record *records[2] = {calloc(1, sizeof(struct record)), calloc(1, sizeof(struct record))};
    for (unsigned n = thread;; n++) {
        struct record *record = records[n % 2];
        // Its former contents are those of other work.
        record->valid = 0;
        atomic_signal_fence(memory_order_seq_cst);
        memset(record->trace, 0xee, 24);
        if (n % 8 == 0)
            updating();
        fill(record, n % 4, thread);
        atomic_signal_fence(memory_order_seq_cst);
        record->valid = 1;
        atomic_signal_fence(memory_order_seq_cst);
        *variable() = record;
        works[n % 4]();
        if (n % 2 == 0 && swaps)
            *variable() = NULL;
        else
            record->valid = n % 3 ? 0 : 2;
        atomic_signal_fence(memory_order_seq_cst);
        without();
    }
    return NULL;
}

static void *change(void *argument) {
    struct record *record = argument;
    for (unsigned n = 1;; n = n * 1664525 + 1013904223)
        for (unsigned at = 0; at < 64; at++)
            ((volatile uint8_t *)record)[at] = at == 24 ? 1 : n >> at % 24;
    return NULL;
}

static void *mislead(void *argument) {
    struct record *end = (struct record *)((char *)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096);
    munmap(end, 4096);
    uint8_t *last = (uint8_t *)end - 28;
    memset(last, 1, 28);
    memset(last + 26, 0xff, 2);
    struct record *changing = calloc(1, sizeof(struct record)), *large = calloc(40, sizeof(struct record));
    memset(large, 7, 40 * sizeof(struct record));
    large->valid = 1;
    large->size = 0xffff;
    pthread_t other;
    pthread_create(&other, NULL, change, changing);
    struct record *const all[] = {(void *)last, (void *)(last + 20), changing, large, (void *)0x10, (void *)0xdeadbeef0000,
                                  (void *)~1ull, (void *)1, (void *)0xffff800000000000};
    for (unsigned n = 0;; n++) {
        *variable() = all[n % (sizeof all / sizeof *all)];
        hostile();
    }
    return argument;
}

static uint8_t *put(uint8_t *to, int field, const void *content, size_t size) {
    *to++ = field << 3 | 2;
    *to++ = (size & 0x7f) | 0x80;
    *to++ = size >> 7;
    memcpy(to, content, size);
    return to + size;
}

static size_t text(uint8_t *to, const char *value) { return put(to, 1, value, strlen(value)) - to; }

static uint8_t *pair(uint8_t *to, int field, const char *key, const uint8_t *value, size_t size) {
    static uint8_t bytes[4096];
    uint8_t *end = put(put(bytes, 1, key, strlen(key)), 2, value, size);
    return put(to, field, bytes, end - bytes);
}

// Returns the size of the payload.
static size_t encode(uint8_t *payload, const char *instance, const char *const *keys, int count) {
    static uint8_t value[4096], values[4096], resource[4096];
    uint8_t *end = pair(resource, 1, "service.name", value, text(value, "shop"));
    end = pair(end, 1, "service.instance.id", value, text(value, instance));
    uint8_t *to = put(payload, 1, resource, end - resource);
    to = pair(to, 2, "threadlocal.schema_version", value, text(value, "tlsdesc_v1_dev"));
    end = values;
    for (int n = 0; n < count; n++)
        end = put(end, 1, value, text(value, keys[n]));
    size_t size = put(value, 5, values, end - values) - value;
    return pair(to, 2, "threadlocal.attribute_key_map", value, size) - payload;
}

static struct context {
    char signature[8];
    uint32_t version, size;
    _Atomic uint64_t time;
    uint64_t payload;
} *context;

static void publish(const char *instance, int count, int is_anonymous) {
    static const char *const keys[] = {"http.route", "thread", "unused", "late.key"};
    static uint8_t payloads[2][8192];
    static int turn;
    uint8_t *payload = payloads[turn++ % 2];
    int is_new = !context;
    if (is_new) {
        int file = is_anonymous ? -1 : memfd_create("OTEL_CTX", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (file >= 0)
            ftruncate(file, 4096);
        context = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
        close(file);
        madvise(context, 4096, MADV_DONTFORK);
        memcpy(context->signature, "OTEL_CTX", 8);
        context->version = 2;
    }
    context->time = 0;
    atomic_thread_fence(memory_order_seq_cst);
    context->size = encode(payload, instance, keys, count);
    context->payload = (uintptr_t)payload;
    atomic_thread_fence(memory_order_seq_cst);
    context->time = now(CLOCK_BOOTTIME);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, context, 4096, "OTEL_CTX");
}

int main(int count, char **arguments) {
    int is_late = 0, is_hostile = 0, is_anonymous = 0;
    for (int n = 1; n < count; n++) {
        is_late |= !strcmp(arguments[n], "late");           // publishes after it has begun
        swaps |= !strcmp(arguments[n], "swaps");            // detaches records, too
        is_hostile |= !strcmp(arguments[n], "hostile");     // no valid pointers
        is_anonymous |= !strcmp(arguments[n], "anonymous"); // without a memfd
    }
#ifdef LOADED
    void *library = dlopen(LOADED, RTLD_NOW);
    variable = library ? dlsym(library, "variable") : NULL;
    if (!variable)
        return puts(dlerror()), 1;
#endif
    if (!is_late)
        publish("one", 3, is_anonymous);
    pthread_t threads[2];
    for (intptr_t n = 0; n < 2; n++)
        pthread_create(&threads[n], NULL, is_hostile ? mislead : work, (void *)n);
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        publish("two", 4, is_anonymous);
        late_key = 1;
        puts("published");
        fflush(stdout);
    }
    return 0;
}
