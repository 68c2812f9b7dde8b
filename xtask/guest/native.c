/* Profiles programs with known chains, inside the guest, and judges each of their samples.
 *
 * The profiler runs before they start. A sample is right if its frames below main are those of one of the program's chains, or of the
 * way to it; behind them there may be the look at the clock, and frames of the kernel. 999 of 1,000 have to be right, and each program
 * has to have some hundred. Samples of the start, and of what main calls before the chain, have to begin with the first function of the
 * program or of the loader. Only the copy of a stack that is sent before the kernel side has tables may end: in a handler on a stack of
 * its own.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEVELS = 100, SECONDS = 40, LEAST = 100 };

struct program {
    const char *name;
    const char *arguments[2];
    /* Chains below main, the longest first. SIGNAL is the kernel's trampoline. */
    const char *chains[3];
    /* Numbers of samples: all, right ones, of those outside of the chain, and of those that end early in a handler. */
    long all, right, outside, short_copies;
};

static const char LOG[] = "/tmp/flamegraph.log";
static char descent[LEVELS * 9];

static struct program programs[] = {
    {.name = "chain", .chains = {";l1;spread;l2;l3;leaf"}},
    {.name = "chain_linked", .chains = {";l1;spread;l2;l3;leaf"}},
    {.name = "chain_signed", .chains = {";l1;spread;l2;l3;leaf"}},
    {.name = "realign", .chains = {";l1;wide_arguments;l2;l3;leaf"}},
    {.name = "recursion", .arguments = {"100"}, .chains = {descent}},
    {.name = "signals", .arguments = {"normal", "alarm"}, .chains = {";l1;leaf;SIGNAL;handler;handler_leaf", ";l1;leaf"}},
    {.name = "signals_signed", .arguments = {"alternate", "profile"},
     .chains = {";l1;leaf;SIGNAL;handler;handler_leaf", ";l1;leaf"}},
};

enum { PROGRAMS = sizeof programs / sizeof *programs };

/* Starts a program whose output goes to a file, or where ours does. */
static pid_t start(char *const *words, const char *output)
{
    pid_t pid = fork();
    if (pid == 0) {
        int file = output ? open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
        if (file >= 0) {
            dup2(file, 1);
            dup2(file, 2);
        }
        execv(words[0], words);
        perror(words[0]);
        _exit(127);
    }
    return pid;
}

/* The trampoline's symbol begins with its code, and a return address is looked up by the byte before. */
static int is_trampoline(const char *frame)
{
    return strncmp(frame, ";[vdso]+0x", 10) == 0 || strncmp(frame, ";__kernel_rt_sigreturn", 22) == 0;
}

/* Returns the number of characters of a frame that are those of a chain's next function; 0 if it is another. */
static size_t matching(const char *frame, const char *function)
{
    static const char SIGNAL[] = ";SIGNAL";
    size_t length = strcspn(function + 1, ";") + 1;
    if (strncmp(function, SIGNAL, sizeof SIGNAL - 1) == 0)
        return is_trampoline(frame) ? strcspn(frame + 1, "; ") + 1 : 0;
    return strncmp(frame, function, length) == 0 && strchr("; ", frame[length]) ? length : 0;
}

/* Returns 1 if nothing follows, or what a function may always call: the kernel, and the clock at the end of a chain. */
static int is_end(const char *frames, int is_whole)
{
    return *frames == ' ' || strstr(frames, "_[k]") == frames + strcspn(frames + 1, "; ") + 1 - 4
        || (is_whole && strncmp(frames, ";now", 4) == 0);
}

static int is_chain(const char *frames, const char *chain)
{
    while (*chain) {
        size_t length = matching(frames, chain);
        if (length == 0)
            return is_end(frames, 0);
        frames += length;
        chain += strcspn(chain + 1, ";") + 1;
    }
    return is_end(frames, 1);
}

static void judge(struct program *program, const char *line, long count)
{
    const char *frames = strchr(line, ';');
    const char *main = strstr(line, ";main;");
    program->all += count;
    if (strncmp(frames, ";[truncated: the copied part of the stack ends]", 47) == 0 && strstr(frames, ";handler")) {
        program->short_copies += count;
        program->right += count;
        return;
    }
    /* The system call that ends a process has freed its memory. */
    int is_start = strncmp(frames, ";_start", 7) == 0 || strncmp(frames, ";ld-linux-aarch64.so.1+", 23) == 0
        || strncmp(frames, ";[exec]", 7) == 0 || strstr(frames, "_exit_group_[k]");
    for (int i = 0; main && i < 3 && program->chains[i]; i++)
        if (is_chain(main + 5, program->chains[i]) && is_start) {
            program->right += count;
            return;
        }
    if (is_start && (!main || !matching(main + 5, program->chains[0]))) {
        program->outside += count;
        program->right += count;
        if (count > 9)
            printf("native: outside: %s", line);
        return;
    }
    printf("native: %s", line);
}

static int judge_all(const char *path)
{
    static char line[1 << 16];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        for (int i = 0; i < PROGRAMS; i++) {
            size_t length = strlen(programs[i].name);
            if (strncmp(line, programs[i].name, length) == 0 && line[length] == ';')
                judge(&programs[i], line, atol(strrchr(line, ' ')));
        }
    long all = 0, right = 0;
    int is_short = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        struct program *it = &programs[i];
        printf("native: %s: %ld of %ld samples are right, %ld of them outside of the chain, %ld short copies\n", it->name,
               it->right, it->all, it->outside, it->short_copies);
        all += it->all;
        right += it->right;
        is_short |= it->all < LEAST || (it->outside + it->short_copies) * 5 > it->all;
    }
    printf("native: %ld of %ld samples\n", right, all);
    return is_short || right * 1000 < all * 999;
}

int main(void)
{
    char *explain[] = {"/task/explain", NULL};
    int status = 1;
    for (int i = 0; i < LEVELS; i++)
        strcat(descent, ";descend");
    strcat(descent, ";leaf");
    if (access(explain[0], X_OK) == 0)
        waitpid(start(explain, NULL), &status, 0);
    char *flamegraph[] = {"/task/flamegraph", "--seconds", "60", "--frequency", "97", "--output", "/tmp/native.folded", NULL};
    pid_t profiler = start(flamegraph, LOG);
    /* Its programs are verified meanwhile. */
    sleep(15);
    for (int i = 0; i < PROGRAMS; i++) {
        char path[64], seconds[16];
        snprintf(path, sizeof path, "/task/%s", programs[i].name);
        snprintf(seconds, sizeof seconds, "%d", SECONDS);
        char *words[] = {path, seconds, (char *)programs[i].arguments[0], (char *)programs[i].arguments[1], NULL};
        start(words, "/dev/null");
    }
    waitpid(profiler, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        static char log[4096];
        int file = open(LOG, O_RDONLY);
        printf("native: flamegraph failed: %.*s\n", file < 0 ? 0 : (int)read(file, log, sizeof log), log);
        return 1;
    }
    return judge_all("/tmp/native.folded");
}
