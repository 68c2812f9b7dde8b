/* main > l1 > (code made at run time) > (more of it) > leaf.
 *
 * The code is a function with a frame pointer and nothing else: no symbol, no unwind data, no file.
 */
#include "truth.h"
#include <string.h>
#include <sys/mman.h>

typedef int (*function)(int);

ALONE int leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

/* Writes a function that calls `callee` with its own argument; gives the address behind it. */
static unsigned char *emit(unsigned char *at, function callee)
{
    static const unsigned char before[] = {
        0x55,                   /* push %rbp      */
        0x48, 0x89, 0xe5,       /* mov %rsp, %rbp */
        0x48, 0x83, 0xec, 0x20, /* sub $32, %rsp  */
        0x48, 0xb8,             /* movabs callee, %rax */
    };
    static const unsigned char after[] = {
        0xff, 0xd0, /* call *%rax */
        0xc9,       /* leave      */
        0xc3,       /* ret        */
    };
    memcpy(at, before, sizeof before);
    at += sizeof before;
    memcpy(at, &callee, sizeof callee);
    at += sizeof callee;
    memcpy(at, after, sizeof after);
    return at + 16;
}

ALONE int l1(function first)
{
    int r = first(1);
    STAY();
    return r + 1;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    unsigned char *code = (unsigned char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 1;
    unsigned char *second = emit(code, leaf);
    emit(second, (function)(void *)code);
    ready();
    int r = l1((function)(void *)second);
    STAY();
    return r == 12345;
}
