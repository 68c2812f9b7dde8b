/* Copies itself to a new file, executes that, and removes it: endless programs that end at once.
 *
 * FOLDER
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc > 2)
        return 0;
    for (unsigned number = 0; argc == 2; number++) {
        char path[4096], word[32];
        snprintf(path, sizeof path, "%s/p%d-%u", argv[1], getpid(), number);
        snprintf(word, sizeof word, "%u", number);
        int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
        struct stat status;
        if (from < 0 || to < 0 || fstat(from, &status) || sendfile(to, from, NULL, status.st_size) < 0)
            return 1;
        close(from);
        close(to);
        pid_t child = vfork();
        if (child == 0) {
            execl(path, path, argv[1], word, NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
        unlink(path);
    }
    return 1;
}
