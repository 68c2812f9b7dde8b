/* The first and only process of a kernel under test.
 *
 * Mounts what a profiler looks at, says what this kernel has, runs the program that /task/arguments names, one word
 * a line, and says how it ended. Then the machine stops.
 */
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static void attach(const char *kind, const char *where)
{
    mkdir(where, 0755);
    if (mount(kind, where, kind, 0, NULL) != 0)
        printf("guest: no %s on %s\n", kind, where);
}

/* Starts the loopback interface. */
static void start_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) != 0)
        printf("guest: no loopback\n");
    close(any);
}

/* What the kernel offers to programs like ours. */
static void tell_kernel(void)
{
    struct utsname name;
    uname(&name);
    struct stat btf = {0};
    stat("/sys/kernel/btf/vmlinux", &btf);
    printf("guest: Linux %s, %ld processors, %ld bytes of type information\n", name.release,
           sysconf(_SC_NPROCESSORS_ONLN), (long)btf.st_size);
}

/* Reads the words of the command; their number. */
static int read_arguments(char *text, size_t size, char **words, int most)
{
    int file = open("/task/arguments", O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, size - 1);
    text[length > 0 ? length : 0] = 0;
    int count = 0;
    for (char *word = strtok(text, "\n"); word && count < most; word = strtok(NULL, "\n"))
        words[count++] = word;
    words[count] = NULL;
    return count;
}

static void put(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0)
        printf("guest: cannot write %s\n", path);
    close(file);
}

/* Seconds after which a program may hang; that of the tests takes 360 at most. */
enum { WATCH = 480 };

/* Starts a process that lets the kernel print the stacks of all CPUs and threads if the program is still running then. */
static void watch(void)
{
    if (fork() != 0)
        return;
    sleep(WATCH);
    printf("guest: still running after %d s; the stacks of all threads follow\n", WATCH);
    put("/proc/sys/kernel/printk", "8");
    put("/proc/sysrq-trigger", "l");
    put("/proc/sysrq-trigger", "t");
    _exit(0);
}

static int run(char **words)
{
    pid_t pid = fork();
    if (pid == 0) {
        execv(words[0], words);
        perror(words[0]);
        _exit(127);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(void)
{
    static char text[16384];
    static char *words[257];
    setvbuf(stdout, NULL, _IONBF, 0);
    attach("proc", "/proc");
    attach("sysfs", "/sys");
    attach("devtmpfs", "/dev");
    attach("tmpfs", "/tmp");
    attach("bpf", "/sys/fs/bpf");
    attach("tracefs", "/sys/kernel/tracing");
    setenv("PATH", "/task:/bin", 1);
    setenv("HOME", "/tmp", 1);
    if (chdir("/tmp") != 0)
        printf("guest: no /tmp\n");
    start_loopback();
    tell_kernel();
    watch();
    int status = read_arguments(text, sizeof text, words, 256) > 0 ? run(words) : 0;
    printf("\nguest: ended with %d\n", status);
    sync();
    reboot(RB_AUTOBOOT);
    return 1;
}
