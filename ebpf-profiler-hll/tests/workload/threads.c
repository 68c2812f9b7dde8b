/* Two threads with values of two keys and of a library's thread-local variable.
 *
 * threads LIBRARY: loads the library, prints pthread_self() and the value of each thread, and waits for end of input.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

pthread_key_t first_key, last_key;
static void (*set_own)(long);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

long get_first(void) { return (long)pthread_getspecific(first_key); }
long get_last(void) { return (long)pthread_getspecific(last_key); }

static void *run(void *argument) {
    long value = (long)argument;
    pthread_setspecific(first_key, (void *)(value + 1));
    pthread_setspecific(last_key, (void *)(value + 2));
    set_own(value);
    pthread_mutex_lock(&lock);
    printf("%lu %ld\n", (unsigned long)pthread_self(), value);
    fflush(stdout);
    pthread_mutex_unlock(&lock);
    char byte;
    read(0, &byte, 1);
    return 0;
}

int main(int count, char **arguments) {
    pthread_key_create(&first_key, 0);
    for (int index = 0; index < 40; index++) pthread_key_create(&last_key, 0);
    void *library = dlopen(arguments[count - 1], RTLD_NOW);
    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 1; }
    set_own = (void (*)(long))dlsym(library, "set_own");
    pthread_t thread;
    pthread_create(&thread, 0, run, (void *)0x1000);
    run((void *)0x2000);
    return 0;
}
