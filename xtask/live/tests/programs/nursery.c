/* Starts one program after another, each under a name of its own, and says what each of them cost.
 *
 * SECONDS COUNT PROGRAM DIRECTORY [ARGUMENT]: PROGRAM is linked into DIRECTORY as n0000, n0001, ... and run from
 * there, so that each process has its own command name. Prints "n0000 0.030123 s" for each if COUNT is at most
 * 1,000, and "300 lives 9.012 s" at the end. From 1,000 on the names repeat.
 */
#include "truth.h"
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

static double seconds_of(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec)
        + (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (argc < 5)
        return 2;
    int count = atoi(argv[2]), done = 0;
    int names = count < 1000 ? count : 1000;
    char path[4096];
    for (int i = 0; i < names; i++) {
        snprintf(path, sizeof path, "%s/n%04d", argv[4], i);
        unlink(path);
        if (link(argv[3], path) != 0)
            return 1;
    }
    ready();
    double total = 0;
    for (; done < count && now() < deadline; done++) {
        pid_t pid;
        struct rusage usage;
        snprintf(path, sizeof path, "%s/n%04d", argv[4], done % names);
        char *arguments[] = {path, argv[5], NULL};
        if (posix_spawn(&pid, path, NULL, NULL, arguments, environ) != 0)
            return 1;
        if (wait4(pid, NULL, 0, &usage) != pid)
            return 1;
        total += seconds_of(&usage);
        if (count <= 1000)
            printf("n%04d %.6f s\n", done, seconds_of(&usage));
    }
    printf("%d lives %.6f s\n", done, total);
    return 0;
}
