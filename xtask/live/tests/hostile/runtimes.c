/* Maps a file that holds a runtime as code 16,000 times, each time at another load bias, the first of them at the highest
 * addresses; maps some of them again and again.
 *
 * FILE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

enum { MAPPINGS = 16000, STEP = 8192 };

int main(int argc, char **argv)
{
    int file = argc < 2 ? -1 : open(argv[1], O_RDONLY);
    char *area = mmap(NULL, MAPPINGS * (unsigned long)STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file < 0 || area == MAP_FAILED)
        return 1;
    puts("ready");
    fflush(stdout);
    for (unsigned long number = MAPPINGS;; number = number > 1 ? number - 1 : MAPPINGS) {
        if (mmap(area + (number - 1) * STEP, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
            return 1;
        for (volatile unsigned spun = 0; spun < 100000; spun++) {
        }
    }
}
