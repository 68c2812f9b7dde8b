/* Profiles a program with a known chain, inside the guest, and judges what comes out.
 *
 * /task/chain works in main > l1 > spread > l2 > l3 > leaf while /task/flamegraph looks at the whole machine. At least
 * 95 of 100 samples of it have to hold exactly that chain, and there must be some hundred of them.
 *
 * Before that, /task/flamegraph samples page faults, waits, disks and memory in use: programs of such triggers have the walkers of all languages, so the
 * kernel's verifier has to accept all of them. Then it samples a function of the kernel that a known thread calls 500 times, by kprobes
 * and by fentry. Kernels before 6.1 have no off-CPU time, and those before 5.19 no fentry.
 * /task/own_language profiles toy languages, whose frames are in an array, and in compiled code.
 * /task/cpus switches a processor off and on.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
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

enum { WARM_UP = 150, WRITES = 500, BYTES = 7 };

__attribute__((noinline)) static void store(int file)
{
    if (write(file, "7 bytes", BYTES) != BYTES)
        _exit(1);
    __asm__ volatile("");
}

/* Returns the sum of the values of samples of the thread that writes, in its function; -1 if another stack has one, or one with another
 * last frame than `leaf`, unless that is NULL. */
static long sum_of_writes(const char *kind, const char *leaf)
{
    static char line[1 << 16], path[320];
    long sum = 0;
    snprintf(path, sizeof path, "/tmp/points.%s.folded", kind);
    /* A file's name has letters, digits and _ of the kind's. */
    for (char *at = path + sizeof "/tmp/points"; at < path + strlen(path) - sizeof ".folded" + 1; at++)
        if (!isalnum((unsigned char)*at) && *at != '_')
            *at = '-';
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "writer;", 7) != 0)
            continue;
        char *last = strrchr(line, ';') + 1;
        if (!strstr(line, ";store;") || strncmp(line, "writer;_start;", 14) != 0 || (leaf && strncmp(last, leaf, strlen(leaf)) != 0)) {
            printf("profile: %s", line);
            return -1;
        }
        sum += atol(strrchr(line, ' '));
    }
    if (file)
        fclose(file);
    return sum;
}

/* Returns the number of programs that a process has attached, by links or, before 5.15, by perf events, and of its other perf events. */
static int links(pid_t pid)
{
    char path[64], target[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        count += strstr(target, "bpf_link") != NULL || strstr(target, "perf_event") != NULL;
    }
    if (folder)
        closedir(folder);
    return count;
}

/* Writes WRITES times, says so by closing `done`, and waits. Before that it writes under another name for three seconds, in which even an
 * emulated profiler gets to know the process. */
static void be_writer(const int done[2])
{
    prctl(PR_SET_NAME, "writer0");
    int file = open("/dev/null", O_WRONLY);
    for (int i = 0; i < WARM_UP; i++) {
        store(file);
        usleep(20000);
    }
    prctl(PR_SET_NAME, "writer");
    for (int i = 0; i < WRITES; i++) {
        store(file);
        usleep(2000);
    }
    close(done[0]);
    close(done[1]);
    sleep(100);
    _exit(0);
}

/* Samples a function of the kernel in four ways: by probes of the kernel, or by programs that are loaded for the function. At a
 * kretprobe the function has returned, and is not in the stack. */
static int judge_points(const char *entry, const char *exit, const char *leaf)
{
    /* One for each probe, of which the time has two, for a process's start, exec and end, and for the mappings on each processor. */
    enum { LINKS = 5 + 3 + 2, KINDS = 4 };
    static char on[KINDS][64];
    snprintf(on[0], sizeof on[0], "%s:vfs_write:arg2", entry);
    snprintf(on[1], sizeof on[1], "%s:vfs_write:result", exit);
    snprintf(on[2], sizeof on[2], "%s:vfs_[w]rite", entry);
    snprintf(on[3], sizeof on[3], "%s:vfs_write:time", entry);
    char *flamegraph[] = {"/task/flamegraph", "--seconds", "250", "--output", "/tmp/points.folded",
        "--on", on[0], "--on", on[1], "--on", on[2], "--on", on[3], "--thread", "writer*", NULL};
    pid_t profiler = start(flamegraph);
    /* The walk is verified for each function; emulated, beside other work, that takes a minute. */
    for (int i = 0; i < 2000 && links(profiler) < LINKS; i++)
        usleep(100000);
    int done[2];
    if (pipe(done) != 0)
        return 1;
    pid_t writer = fork();
    if (writer == 0)
        be_writer(done);
    char byte;
    close(done[1]);
    if (read(done[0], &byte, 1) != 0)
        return 1;
    /* Its mappings are read when it is sampled first. */
    sleep(1);
    kill(profiler, SIGINT);
    int status = 1;
    waitpid(profiler, &status, 0);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    long sums[KINDS];
    for (int i = 0; i < KINDS; i++)
        sums[i] = sum_of_writes(on[i], leaf);
    printf("profile: %s vfs_write: %ld calls, %ld and %ld bytes, %ld ns\n", entry, sums[2], sums[0], sums[1], sums[3]);
    return sums[2] != WRITES || sums[0] != WRITES * BYTES || sums[1] != WRITES * BYTES || sums[3] <= 0;
}

/* Profiles a toy language: nine of ten samples have to be of its script, from the root to a leaf. */
static int judge_toy(const char *name, const char *leaf)
{
    static char line[1 << 16], path[64], number[16];
    long all = 0, right = 0;
    snprintf(path, sizeof path, "/task/%s", name);
    char *toy[] = {path, NULL};
    pid_t work = start(toy);
    snprintf(number, sizeof number, "%d", work);
    char *profiler[] = {"/task/own_language", "--pid", number, "--seconds", "5", NULL};
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen("/tmp/toy.folded", "w", stdout))
            execv(profiler[0], profiler);
        _exit(127);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    kill(work, SIGKILL);
    FILE *file = fopen("/tmp/toy.folded", "r");
    while (file && fgets(line, sizeof line, file)) {
        all += atol(strrchr(line, ' '));
        if (strstr(line, ";_start;") && strstr(line, leaf))
            right += atol(strrchr(line, ' '));
    }
    if (file)
        fclose(file);
    printf("profile: %ld of %ld samples of the toy language %s\n", right, all, name);
    return status != 0 || all < 100 || right * 10 < all * 9;
}

/* Returns 1 if the kernel is older than this version. */
static int is_before(int major, int minor)
{
    struct utsname name;
    int found[2] = {0, 0};
    uname(&name);
    sscanf(name.release, "%d.%d", &found[0], &found[1]);
    return found[0] < major || (found[0] == major && found[1] < minor);
}

int main(void)
{
    char *chain[] = {"/task/chain", "600", NULL};
    char *flamegraph[] = {"/task/flamegraph", "--seconds", "5", "--frequency", "97", "--output", (char *)OUTPUT, NULL};
    pid_t work = start(chain);
    /* Off-CPU time needs a ring of user space. */
    char *waits = is_before(6, 1) ? "minor-faults" : "off-cpu-wakers:1ms";
    char *faults[] = {"/task/flamegraph", "--on", "page-faults", "--on", waits, "--on", "block-latency",
        "--on", "malloc-live:1:/task/profile", "--seconds", "1", "--output", "/tmp/faults.folded", NULL};
    sleep(1);
    int status = 1;
    waitpid(start(faults), &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("profile: no page faults\n");
        return 1;
    }
    if (judge_points("kprobe", "kretprobe", NULL) != 0
        || (!is_before(5, 19) && judge_points("fentry", "fexit", "vfs_write_[k]") != 0)) {
        printf("profile: functions of the kernel are not counted\n");
        return 1;
    }
    if (judge_toy("array", ";main;main;frame") != 0 || judge_toy("compiled", ";main;main0;frame0") != 0) {
        printf("profile: toy languages are not walked\n");
        return 1;
    }
    /* Without a switch for processors it fails instead of being skipped. */
    setenv("CI", "true", 1);
    char *cpus[] = {"/task/cpus", "--ignored", "--test-threads=1", "--nocapture", NULL};
    waitpid(start(cpus), &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("profile: a processor that was off is not sampled\n");
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
