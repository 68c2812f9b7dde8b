/* Four threads in chains of different depth, and main > wait_for_all > burning of its own. */
#include "truth.h"
#include <pthread.h>

ALONE int leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

ALONE int w3(int x)
{
    int r = leaf(x + 1);
    STAY();
    return r + 1;
}

ALONE int w2(int x)
{
    int r = w3(x + 1);
    STAY();
    return r + 1;
}

ALONE void *shallow(void *p)
{
    w3(1);
    STAY();
    return p;
}

ALONE void *deep(void *p)
{
    w2(1);
    STAY();
    return p;
}

ALONE int wait_for_all(pthread_t *threads)
{
    int r = leaf(0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return r;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, i % 2 ? deep : shallow, NULL) != 0)
            return 1;
    usleep(50000); /* so that all have arrived */
    ready();
    int r = wait_for_all(threads);
    STAY();
    return r == 12345;
}
