/* A process whose first thread ends long before the others do: run_on > l1 > leaf goes on without it.
 *
 * The second argument is when: so many seconds after it is ready, "before" that, or "stays".
 */
#include "truth.h"
#include <pthread.h>
#include <string.h>

ALONE int leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

ALONE int l1(int x)
{
    int r = leaf(x + 1);
    STAY();
    return r + 1;
}

ALONE void *run_on(void *before)
{
    if (before) {
        usleep(100000); /* so that the first thread has ended */
        ready();
    }
    l1(1);
    STAY();
    exit(0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *when = argc > 2 ? argv[2] : "stays";
    int before = strcmp(when, "before") == 0;
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_on, before ? argv : NULL) != 0)
        return 1;
    if (!before) {
        usleep(50000); /* so that it has arrived */
        ready();
        usleep((useconds_t)(1e6 * atof(when)));
    }
    if (strcmp(when, "stays") == 0)
        pthread_join(thread, NULL);
    pthread_exit(NULL);
}
