/* main > l1 > leaf, out of a file that can't be opened by its name any more.
 *
 * SECONDS stay|memfd|delete|replace|pipe: runs itself from a memory file, or removes its file, or puts a file that
 * is no program in its place, or a pipe that nobody ever writes to. Give it a copy of itself to run.
 */
#include "truth.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

extern char **environ;

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

static int run_from_memory(char **argv)
{
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = memfd_create("vanish", MFD_CLOEXEC);
    static char bytes[1 << 16];
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;)
        if (write(to, bytes, (size_t)n) != n)
            return 1;
    char stay[] = "stay";
    argv[2] = stay;
    fexecve(to, argv, environ);
    return 1;
}

static int replace(const char *path, int by_pipe)
{
    char other[4096];
    snprintf(other, sizeof other, "%s.new", path);
    if (by_pipe)
        return mkfifo(other, 0666) != 0 || rename(other, path) != 0;
    FILE *file = fopen(other, "w");
    if (!file)
        return 1;
    fputs("not the program any more\n", file);
    fclose(file);
    return rename(other, path);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    const char *how = argc > 2 ? argv[2] : "stay";
    if (strcmp(how, "memfd") == 0)
        return run_from_memory(argv);
    if (strcmp(how, "delete") == 0 && unlink(argv[0]) != 0)
        return 1;
    if (strcmp(how, "replace") == 0 && replace(argv[0], 0) != 0)
        return 1;
    if (strcmp(how, "pipe") == 0 && replace(argv[0], 1) != 0)
        return 1;
    ready();
    int r = l1(argc);
    STAY();
    return r == 12345;
}
