/* C: static and global functions, inlined ones, one that the compiler splits, calls through the linkage table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline __attribute__((always_inline)) int square(int x) {
    return x * x;
}

static inline __attribute__((always_inline)) int sum_of_squares(int a, int b) {
    int first = square(a);
    int second = square(b);
    return first + second;
}

static __attribute__((noinline)) int recurse(int depth) {
    if (depth == 0) {
        return sum_of_squares(3, 4);
    }
    return recurse(depth - 1) + sum_of_squares(depth, depth + 1);
}

__attribute__((noinline)) int public_name(int n) {
    if (__builtin_expect(n > 1000000, 0)) {
        fprintf(stderr, "too large: %d\n", n);
        abort();
    }
    int total = 0;
    for (int i = 0; i < n; i++) {
        total += square(i) ^ recurse(i % 5);
    }
    return total;
}

__attribute__((weak, alias("public_name"))) int __weak_alias(int n);

int main(int argc, char **argv) {
    double root = sqrt((double)argc);
    printf("%d %f %zu\n", public_name(argc), root, strlen(argv[0]));
    return 0;
}
