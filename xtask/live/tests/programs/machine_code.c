// An addon of Node.js with machine code of its own, as that of another compiler in the same process. A perf map has its names.

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *napi_value;
typedef napi_value (*napi_callback)(void *env, void *info);
extern int napi_create_function(void *env, const char *name, size_t length, napi_callback call, void *data,
                                napi_value *result);

// foreign_outer: push rbp; mov rbp, rsp; call foreign_inner; pop rbp; ret
// foreign_inner: push rbp; mov rbp, rsp; dec rdi; jnz; pop rbp; ret
static const unsigned char code[] = "\x55\x48\x89\xe5\xe8\x07\x00\x00\x00\x5d\xc3\xcc\xcc\xcc\xcc\xcc"
                                    "\x55\x48\x89\xe5\x48\xff\xcf\x75\xfb\x5d\xc3";

static void (*spin)(uint64_t);

static napi_value call_code(void *env, void *info) {
    (void)env, (void)info;
    spin(100000);
    __asm__ volatile("" ::: "memory");
    return NULL;
}

napi_value napi_register_module_v1(void *env, napi_value exports) {
    (void)exports;
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    mprotect(memory, 4096, PROT_READ | PROT_EXEC);
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx 10 foreign_outer\n%lx 10 foreign_inner\n", (long)memory, (long)memory + 16);
    fclose(map);
    spin = (void (*)(uint64_t))memory;
    napi_value function;
    napi_create_function(env, "call", 4, call_code, NULL, &function);
    return function;
}
