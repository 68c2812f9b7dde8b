/* Profiles a program with a known chain, inside the guest, and judges what comes out.
 *
 * /task/chain works in main > l1 > spread > l2 > l3 > leaf while /task/flamegraph looks at the whole machine. At least
 * 95 of 100 samples of it have to hold exactly that chain, and there must be some hundred of them.
 *
 * Before that, /task/flamegraph samples page faults: programs of such triggers have the walkers of all languages, so the
 * kernel's verifier has to accept all of them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char OUTPUT[] = "/tmp/profile.folded";
static const char CHAIN[] = ";main;l1;spread;l2;l3;leaf";

static pid_t start(char *const *words)
{
    pid_t pid = fork();
    if (pid == 0) {
        execv(words[0], words);
        perror(words[0]);
        _exit(127);
    }
    return pid;
}

static int judge(void)
{
    static char line[1 << 16];
    long all = 0, right = 0;
    FILE *file = fopen(OUTPUT, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "chain;", 6) != 0)
            continue;
        char *count = strrchr(line, ' ');
        char *found = strstr(line, CHAIN);
        char behind = found ? found[sizeof CHAIN - 1] : 0;
        all += atol(count);
        if (strncmp(line, "chain;_start;", 13) == 0 && (behind == ' ' || (behind == ';' && strstr(found, "_[k]"))))
            right += atol(count);
    }
    printf("profile: %ld of %ld samples hold the chain\n", right, all);
    return all >= 100 && right * 100 >= all * 95 ? 0 : 1;
}

int main(void)
{
    char *chain[] = {"/task/chain", "120", NULL};
    char *flamegraph[] = {"/task/flamegraph", "--seconds", "5", "--frequency", "97", "--output", (char *)OUTPUT, NULL};
    pid_t work = start(chain);
    char *faults[] = {"/task/flamegraph", "--on", "page-faults", "--seconds", "1", "--output", "/tmp/faults.folded", NULL};
    sleep(1);
    int status = 1;
    waitpid(start(faults), &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("profile: no page faults\n");
        return 1;
    }
    waitpid(start(flamegraph), &status, 0);
    kill(work, SIGKILL);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("profile: flamegraph failed\n");
        return 1;
    }
    return judge();
}
