/* main > l1 > calls or jumps > (nothing, at address 0) > (signal) > handler > handler_leaf: all the time in the handler of the fault.
 *
 * SECONDS call|jump: whether the null pointer is called, or jumped to in place of a return.
 */
#include "truth.h"
#include <signal.h>
#include <string.h>

static char alternate[256 * 1024];
static int (*volatile nothing)(int);

ALONE int handler_leaf(int x)
{
    BURN_UNTIL_DEADLINE();
    return x;
}

ALONE void handler(int signal)
{
    handler_leaf(signal);
    _exit(0);
}

ALONE int calls(int x)
{
    int r = nothing(x + 1);
    STAY();
    return r + 1;
}

ALONE int jumps(int x)
{
    return nothing(x + 1);
}

ALONE int l1(int x, int by_jump)
{
    int r = by_jump ? jumps(x + 1) : calls(x + 1);
    STAY();
    return r + 1;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    if (sigaltstack(&stack, NULL) != 0)
        return 1;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    ready();
    int r = l1(argc, argc > 2 && strcmp(argv[2], "jump") == 0);
    STAY();
    return r == 12345;
}
