// Makes the profiler read memory whose pages never come: a return address there, of a function without unwind data.
//
// absent [FILE]: a mapping of FILE, whose file system does not answer; without one, memory of a userfaultfd that nobody reads.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE (64 << 10)

// Spins with `rdi` as its return address, found by the frame pointer.
void lure(void *address);
__asm__(".text\n.globl lure\n.type lure, @function\nlure:\n"
        "push %rdi\npush %rbp\nmov %rsp, %rbp\n1: pause\njmp 1b\n.size lure, . - lure\n");

static char *of_file(const char *path) {
    struct stat stat;
    int file = open(path, O_RDONLY);
    fstat(file, &stat);
    char *memory = mmap(NULL, stat.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    return memory + (stat.st_size - SIZE);
}

static char *of_userfaultfd(void) {
    char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {{(unsigned long)memory, SIZE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0 || ioctl(fd, UFFDIO_REGISTER, &range) != 0) {
        perror("userfaultfd");
        _exit(1);
    }
    return memory;
}

int main(int count, char **arguments) {
    char *memory = count > 1 ? of_file(arguments[1]) : of_userfaultfd();
    puts("ready");
    fflush(stdout);
    lure(memory + SIZE / 2);
}
