/* Half of its life main > before1 > leaf, the other half, after it has executed itself, main > after1 > after2 > leaf.
 *
 * SECONDS [both|before|after]
 */
#include "truth.h"
#include <string.h>

ALONE int leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

ALONE int before1(int x)
{
    int r = leaf(x + 1);
    STAY();
    return r + 1;
}

ALONE int after2(int x)
{
    int r = leaf(x + 1);
    STAY();
    return r + 1;
}

ALONE int after1(int x)
{
    int r = after2(x + 1);
    STAY();
    return r + 1;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *part = argc > 2 ? argv[2] : "both";
    int r;
    if (strcmp(part, "after") == 0) {
        if (argc < 4)
            ready();
        r = after1(argc);
        STAY();
        return r == 12345;
    }
    ready();
    if (strcmp(part, "both") == 0)
        deadline -= atof(argv[1]) / 2;
    r = before1(argc);
    STAY();
    if (strcmp(part, "both") == 0) {
        char half[32], after[] = "after", quiet[] = "quiet";
        snprintf(half, sizeof half, "%f", atof(argv[1]) / 2);
        char *arguments[] = {argv[0], half, after, quiet, NULL};
        execv("/proc/self/exe", arguments);
        return 1;
    }
    return r == 12345;
}
