/* Runs code without a file until it is ended; with an argument after loading that library. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const unsigned char CODE[] = {
    0x55,                   /* push %rbp           */
    0x48, 0x89, 0xe5,       /* mov %rsp,%rbp       */
    0xb9, 0, 0, 0x10, 0,    /* mov $0x100000,%ecx  */
    0xff, 0xc9,             /* dec %ecx            */
    0x75, 0xfc,             /* jnz to the dec      */
    0x5d,                   /* pop %rbp            */
    0xc3,                   /* ret                 */
};

int main(int argc, char **argv)
{
    if (argc > 1 && !dlopen(argv[1], RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, CODE, sizeof CODE);
    for (;;) ((void (*)(void))code)();
}
