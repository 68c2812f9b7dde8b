// Causes an event of each kind in a known chain: main > outer > inner > act > a function for the kind. It prints "ready", waits for a
// line, works, and prints "end". With "once" it works at once, for gdb.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 400, PAGES = 64, PAGE = 4096 };

#define OWN __attribute__((noinline))

static volatile char *pages;
static char *block;
static int data, null;
static void *volatile kept;
static volatile long sum;

OWN void nap(void) {
    struct timespec time = {0, 1500000};
    nanosleep(&time, 0);
    sum++;
}

OWN void lock_in_vain(void) {
    static int word;
    struct timespec time = {0, 1000000};
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, 0, 0);
    sum++;
}

OWN void allocate(void) {
    kept = malloc(1000);
    sum++;
}

OWN void touch(long turn) {
    pages[turn % PAGES * PAGE] = 1;
    sum++;
}

OWN void call(long turn) { sum += turn; }

OWN void load(long turn) {
    if (pread(data, block, PAGE, turn % PAGES * PAGE) != PAGE) abort();
    sum++;
}

OWN void store(void) {
    if (write(null, "x", 1) != 1) abort();
    sum++;
}

OWN void act(long turn) {
    nap();
    lock_in_vain();
    allocate();
    touch(turn);
    call(turn);
    load(turn);
    store();
    sum++;
}

OWN void inner(long turn) {
    if (turn % PAGES == 0) madvise((void *)pages, PAGES * PAGE, MADV_DONTNEED);
    act(turn);
    sum++;
}

OWN void outer(long turns) {
    for (long turn = 0; turn < turns; turn++) inner(turn);
    sum++;
}

static void say(const char *word) {
    char line[16];
    puts(word);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(0);
}

int main(int count, char **arguments) {
    char path[4096];
    int is_once = count > 1 && !strcmp(arguments[1], "once");
    pages = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)pages, PAGES * PAGE, MADV_NOHUGEPAGE);
    block = aligned_alloc(PAGE, PAGE);
    memset(block, 1, PAGE);
    snprintf(path, sizeof path, "%s.data", arguments[0]);
    data = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
    null = open("/dev/null", O_WRONLY);
    for (int page = 0; page < PAGES; page++)
        if (pwrite(data, block, PAGE, page * PAGE) != PAGE) abort();
    if (fsync(data)) abort();
    if (!is_once) say("ready");
    outer(is_once ? 1 : TURNS);
    if (!is_once) say("end");
    return sum == 0;
}
