/* Threads in a signal handler, in qsort's callback, in a system call and in a loop. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile long sink;

__attribute__((noinline)) static void burn(void)
{
    for (;;)
        sink++;
}

__attribute__((noinline)) static int compare(const void *a, const void *b)
{
    burn();
    return *(const int *)a - *(const int *)b;
}

static void *sorts(void *p)
{
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    return p;
}

static void handler(int number)
{
    sink += number;
    burn();
}

static void *takes_a_signal(void *p)
{
    raise(SIGUSR1);
    return p;
}

static void *waits(void *p)
{
    pause();
    return p;
}

int main(void)
{
    pthread_t thread;
    signal(SIGUSR1, handler);
    pthread_create(&thread, NULL, sorts, NULL);
    pthread_create(&thread, NULL, takes_a_signal, NULL);
    pthread_create(&thread, NULL, waits, NULL);
    usleep(300000);
    puts("ready");
    fflush(stdout);
    burn();
}
