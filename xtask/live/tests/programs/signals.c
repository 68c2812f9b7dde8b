/* main > l1 > leaf > (signal) > handler > handler_leaf: half the time in the handler.
 *
 * SECONDS normal|alternate alarm|profile: which stack the handler runs on, and which timer calls it.
 */
#include "truth.h"
#include <signal.h>
#include <string.h>
#include <sys/time.h>

static char alternate[256 * 1024];

/* A signal that comes while the clock is looked at, which a host can make last, would be handled on another chain. */
static volatile sig_atomic_t at_the_clock;

ALONE int handler_leaf(int x)
{
    BURN();
    return x;
}

ALONE void handler(int signal)
{
    if (!at_the_clock)
        handler_leaf(signal);
    STAY();
}

ALONE int leaf(int x)
{
    do {
        at_the_clock = 0;
        BURN();
        at_the_clock = 1;
    } while (now() < deadline);
    return x;
}

ALONE int l1(int x)
{
    int r = leaf(x + 1);
    STAY();
    return r + 1;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int on_alternate = argc > 2 && strcmp(argv[2], "alternate") == 0;
    int by_profile = argc > 3 && strcmp(argv[3], "profile") == 0;
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    if (on_alternate && sigaltstack(&stack, NULL) != 0)
        return 1;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | (on_alternate ? SA_ONSTACK : 0)};
    sigaction(by_profile ? SIGPROF : SIGALRM, &action, NULL);
    struct itimerval every = {.it_interval = {.tv_usec = 60000}, .it_value = {.tv_usec = 60000}};
    ready();
    setitimer(by_profile ? ITIMER_PROF : ITIMER_REAL, &every, NULL);
    int r = l1(argc);
    STAY();
    return r == 12345;
}
