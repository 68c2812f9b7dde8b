/* Runs chains in PHP's library, each in a thread with an interpreter of its own: embed_threads SCRIPT FOLDER CHAIN NUMBER...
   A thread has the name of its chain, which it prints to a file of that name in the folder. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

int php_embed_init(int, char **);
int php_request_startup(void);
void php_request_shutdown(void *);
void php_embed_shutdown(void);
void *ts_resource_ex(void *);
void ts_free_thread(void);
int zend_eval_string(const char *, void *, const char *);

static char **all;

static void *run(void *place)
{
    char code[4096], **chain = place;
    pthread_setname_np(pthread_self(), chain[0]);
    ts_resource_ex(NULL);
    php_request_startup();
    snprintf(code, sizeof code,
             "$_GET = ['chain' => '%s', 'number' => '%s', 'output' => '%s/%s']; require '%s';",
             chain[0], chain[1], all[2], chain[0], all[1]);
    zend_eval_string(code, NULL, "embed");
    php_request_shutdown(NULL);
    ts_free_thread();
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[64];
    int number = 0;
    all = arguments;
    php_embed_init(count, arguments);
    for (int i = 3; i + 1 < count && number < 64; i += 2)
        pthread_create(&threads[number++], NULL, run, &arguments[i]);
    while (number > 0)
        pthread_join(threads[--number], NULL);
    php_embed_shutdown();
    return 0;
}
