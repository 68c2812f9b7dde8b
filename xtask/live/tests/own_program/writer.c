/* Waits for a line, then makes 2,000 write calls of 1 to 2,000 bytes: odd sizes and even ones by functions of their own. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char bytes[4096];
static volatile int calls;

__attribute__((noinline)) static void put(int file, size_t size) {
    if (write(file, bytes, size) != (ssize_t)size) abort();
    calls++;
}

__attribute__((noinline)) static void odd(int file, size_t size) {
    put(file, size);
    calls++;
}

__attribute__((noinline)) static void even(int file, size_t size) {
    put(file, size);
    calls++;
}

int main(void) {
    int file = open("/dev/null", O_WRONLY);
    char line;
    if (read(0, &line, 1) != 1) return 1;
    for (size_t size = 1; size <= 2000; size++) (size % 2 ? odd : even)(file, size);
    /* The test ends the process. */
    return read(0, &line, 1) != 0;
}
