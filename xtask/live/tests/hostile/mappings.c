/* Maps a file with a path of 3.6 KB as code 65,000 times, forks FORKS times with one mapping in between, and spins in all
 * of them.
 *
 * FOLDER FORKS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static char *area;

static void map(int file, unsigned long number)
{
    mmap(area + number * 8192, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0);
}

int main(int argc, char **argv)
{
    enum { MAPPINGS = 32000, EXTRA = 1000 };
    char name[200];
    if (argc < 3 || chdir(argv[1]))
        return 1;
    memset(name, 'd', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int depth = 0; depth < 18; depth++)
        if ((mkdir(name, 0755) && chdir(name)) || chdir(name))
            return 1;
    int file = open("f", O_RDWR | O_CREAT, 0755);
    if (file < 0 || ftruncate(file, 8192))
        return 1;
    /* Every second page is a mapping of its own kind, so that there are 65,000 of them. */
    area = mmap(NULL, (MAPPINGS + EXTRA) * 8192UL, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return 1;
    for (unsigned long number = 0; number < MAPPINGS; number++)
        map(file, number);
    for (int forks = 0; forks < atoi(argv[2]); forks++) {
        map(file, MAPPINGS + forks);
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, 9);
            break;
        }
    }
    puts("ready");
    fflush(stdout);
    for (volatile unsigned long spun = 0;; spun++) {
    }
}
