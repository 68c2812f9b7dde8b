/* Maps 30,000 pages of its own file as code, one by one and never side by side, again and again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(void)
{
    enum { PAGES = 30000 };
    int file = open("/proc/self/exe", O_RDONLY);
    char *area = mmap(NULL, PAGES * 8192UL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file < 0 || area == MAP_FAILED)
        return 1;
    for (unsigned long turn = 0;; turn++)
        for (unsigned long page = 0; page < PAGES; page++)
            if (mmap(area + page * 8192, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file,
                     turn % 2 * 4096) == MAP_FAILED)
                return 1;
}
