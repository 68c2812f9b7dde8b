// Allocates with each form of `new`, and frees every second one. It prints "ready", waits for a line, allocates, prints "end", and
// waits for another line.
#include <cstdio>
#include <new>

struct Plain { char bytes[100]; };
struct alignas(64) Aligned { char bytes[640]; };

static void *volatile kept;

#define OWN extern "C" __attribute__((noinline))

OWN void one(bool is_freed) {
    auto at = new Plain;
    kept = at;
    if (is_freed) delete at;
}

OWN void many(bool is_freed) {
    auto at = new Plain[7];
    kept = at;
    if (is_freed) delete[] at;
}

OWN void quiet(bool is_freed) {
    auto at = new (std::nothrow) char[30];
    kept = at;
    if (is_freed) delete[] at;
}

OWN void aligned(bool is_freed) {
    auto at = new Aligned;
    kept = at;
    if (is_freed) delete at;
}

static bool wait(const char *word) {
    char line[16];
    puts(word);
    fflush(stdout);
    return fgets(line, sizeof line, stdin);
}

int main() {
    if (!wait("ready")) return 1;
    for (int i = 0; i < 500; i++) {
        one(i % 2);
        many(i % 2);
        quiet(i % 2);
        aligned(i % 2);
    }
    return !wait("end");
}
