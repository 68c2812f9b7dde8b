/* main > breed, which forks one child after another: child_l1 > child_l2 > child_leaf, each for some milliseconds.
 * The children are called c0000, c0001 and so on.
 *
 * SECONDS COUNT MILLISECONDS. Prints at the end how many there were and what they cost: "300 children 9.012 s".
 */
#include "truth.h"
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static double child_end;

ALONE int child_leaf(int x)
{
    do {
        for (int i = 0; i < 20000; i++)
            work++;
    } while (now() < child_end);
    return x;
}

ALONE int child_l2(int x)
{
    int r = child_leaf(x + 1);
    STAY();
    return r + 1;
}

ALONE int child_l1(int x)
{
    int r = child_l2(x + 1);
    STAY();
    return r + 1;
}

static void call_me(const char *form, int number)
{
    char name[16];
    snprintf(name, sizeof name, form, number);
    prctl(PR_SET_NAME, name);
}

ALONE int breed(int count, double seconds)
{
    /* Once here, so that no child has to look the functions up. */
    call_me("children", 0);
    int done = 0;
    for (; done < count && now() < deadline; done++) {
        pid_t pid = fork();
        if (pid < 0)
            return done;
        if (pid == 0) {
            child_end = now() + seconds;
            call_me("c%04d", done);
            int r = child_l1(done);
            STAY();
            _exit(r == 12345);
        }
        waitpid(pid, NULL, 0);
    }
    return done;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int count = argc > 2 ? atoi(argv[2]) : 10;
    double milliseconds = argc > 3 ? atof(argv[3]) : 30;
    ready();
    int done = breed(count, milliseconds / 1000);
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    double cost = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
        + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    printf("%d children %.6f s\n", done, cost);
    return 0;
}
