/* main > l1 > wait_leaf, and after some time main > l1 > plugin_entry > plugin_leaf in a library loaded then.
 *
 * SECONDS LIBRARY SECONDS-BEFORE
 */
#include "truth.h"
#include <dlfcn.h>

ALONE int wait_leaf(double end)
{
    do {
        BURN();
    } while (now() < end);
    return 1;
}

ALONE int l1(const char *library, double before)
{
    int r = before > 0 ? wait_leaf(now() + before) : 0;
    void *handle = dlopen(library, RTLD_NOW);
    int (*entry)(double) = handle ? (int (*)(double))dlsym(handle, "plugin_entry") : NULL;
    if (!entry) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    r += entry(deadline);
    STAY();
    return r + 1;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (argc < 4)
        return 2;
    ready();
    int r = l1(argv[2], atof(argv[3]));
    STAY();
    return r == 12345;
}
