/* A program that loads interpreters, runs scripts in them and unloads them again.
 *
 * host SECONDS STEP...      does all steps, again and again
 *
 *   load=LIBRARY            loads it; its name for the steps behind
 *   home=FOLDER             where its standard library is
 *   run=SCRIPT              begins with an interpreter, runs the script and ends the interpreter
 *   nest=SCRIPT,...         runs scripts; each but the last calls go_on() of this program, which runs the next: in a new
 *                           interpreter of the same library where the next is called sub:SCRIPT, in another library where
 *                           it is LIBRARY:FOLDER:SCRIPT
 *   unload                  unloads it; no other program may keep it
 *   block                   lets nothing be loaded where it lay
 *   key                     makes a key of thread-local storage, or gives back the one that it has made: the next one
 *                           has another number than without
 *   native                  works in a function of its own
 *   squat                   works in code that lies where the loop of the interpreter lay
 *   child=PROGRAM...        starts a program and kills it in the middle of its work
 *   next                    becomes the first program of a list in the environment, a line for each, which goes to its end
 *
 * Prints `ready`, and for each piece of work, in nanoseconds since 1970: phase<TAB>STEP<TAB>FROM<TAB>TO
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALONE __attribute__((noinline, noclone, noipa))

static void *library;
static char *start, *end, *loop;

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, dlerror());
    exit(1);
}

static void *symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        fail(name);
    return found;
}

static void phase(const char *step, long long from)
{
    printf("phase\t%s\t%lld\t%lld\n", step, from, now());
    fflush(stdout);
}

static int measure(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)size;
    if (strcmp(info->dlpi_name, name))
        return 0;
    start = end = (char *)info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        char *behind = start + part->p_vaddr + part->p_memsz;
        if (part->p_type == PT_LOAD && behind > end)
            end = behind;
    }
    end = (char *)(((unsigned long)end + 4095) & ~4095ul);
    return 1;
}

ALONE static void load(char *path)
{
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library || !dl_iterate_phdr(measure, path))
        fail(path);
    loop = dlsym(library, "_PyEval_EvalFrameDefault");
    loop = loop ? loop : symbol("PyEval_EvalFrameEx");
}

ALONE static int run(const char *script)
{
    /* Nothing that isn't in the library: what it loads would keep it from being unloaded. */
    *(int *)symbol("Py_NoSiteFlag") = 1;
    ((void (*)(int))symbol("Py_InitializeEx"))(0);
    FILE *file = fopen(script, "r");
    if (!file)
        fail(script);
    long long from = now();
    int failed = ((int (*)(FILE *, const char *))symbol("PyRun_SimpleFile"))(file, script);
    phase(script, from);
    fclose(file);
    ((void (*)(void))symbol("Py_Finalize"))();
    return failed;
}

static void change_key(void)
{
    static pthread_key_t key;
    static int is_made;
    if (is_made)
        pthread_key_delete(key);
    else
        pthread_key_create(&key, NULL);
    is_made = !is_made;
}

struct method {
    const char *name;
    void *function;
    int flags;
    const char *text;
};

static char *rest;

static void run_next(void);

/* What scripts call. */
ALONE static void *go_on(void *self, void *arguments)
{
    (void)self, (void)arguments;
    void *before = library;
    run_next();
    library = before;
    return ((void *(*)(const char *))symbol("Py_BuildValue"))("");
}

/* Runs a script that may call go_on(). */
ALONE static void run_nested(const char *script)
{
    static struct method method = {"go_on", go_on, 4 /* METH_NOARGS */, ""};
    void *module = ((void *(*)(const char *))symbol("PyImport_AddModule"))("__main__");
    void *names = ((void *(*)(void *))symbol("PyModule_GetDict"))(module);
    void *(*make)(void *, void *, void *) = symbol("PyCFunction_NewEx");
    ((int (*)(void *, const char *, void *))symbol("PyDict_SetItemString"))(names, "go_on", make(&method, NULL, NULL));
    FILE *file = fopen(script, "r");
    if (!file)
        fail(script);
    int is_last = !rest;
    long long from = now();
    ((int (*)(FILE *, const char *))symbol("PyRun_SimpleFile"))(file, script);
    if (is_last)
        phase(script, from);
    fclose(file);
}

/* In an interpreter of its own, of the same library. */
ALONE static void run_in_sub(const char *script)
{
    void *(*swap)(void *) = symbol("PyThreadState_Swap");
    void *before = ((void *(*)(void))symbol("PyThreadState_Get"))();
    void *state = ((void *(*)(void))symbol("Py_NewInterpreter"))();
    if (!state)
        fail("Py_NewInterpreter");
    run_nested(script);
    ((void (*)(void *))symbol("Py_EndInterpreter"))(state);
    swap(before);
}

/* In another library. */
ALONE static void run_in_other(char *path, char *home, const char *script)
{
    load(path);
    setenv("PYTHONHOME", home, 1);
    *(int *)symbol("Py_NoSiteFlag") = 1;
    ((void (*)(int))symbol("Py_InitializeEx"))(0);
    run_nested(script);
    ((void (*)(void))symbol("Py_Finalize"))();
    dlclose(library);
}

static void run_next(void)
{
    char *what = rest;
    rest = strchr(what, ',');
    if (rest)
        *rest++ = 0;
    char *home = strchr(what, ':'), *script = home ? strchr(home + 1, ':') : NULL;
    if (!strncmp(what, "sub:", 4))
        run_in_sub(what + 4);
    else if (script) {
        *home++ = *script++ = 0;
        run_in_other(what, home, script);
    } else
        run_nested(what);
}

static void nest(const char *scripts)
{
    char copy[8192];
    snprintf(copy, sizeof copy, "%s", scripts);
    rest = copy;
    *(int *)symbol("Py_NoSiteFlag") = 1;
    ((void (*)(int))symbol("Py_InitializeEx"))(0);
    run_next();
    ((void (*)(void))symbol("Py_Finalize"))();
}

ALONE static void native(void)
{
    long long from = now(), until = from + 60000000;
    static volatile unsigned work;
    while (now() < until)
        for (int i = 0; i < 100000; i++)
            work++;
    phase("native", from);
}

static void place(int protection)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(start, end - start, protection, flags, -1, 0) != start)
        fail("it is still mapped");
}

ALONE static void squat(void)
{
    /* again: dec %rdi; jne again; ret */
    static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
    place(PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(loop + 64, code, sizeof code);
    long long from = now(), until = from + 60000000;
    while (now() < until)
        ((void (*)(long))(loop + 64))(100000);
    phase("squat", from);
    munmap(start, end - start);
}

static void execute(char *line)
{
    char *arguments[8] = {NULL}, **next = arguments;
    for (char *part = strtok(line, " "); part && next < arguments + 7; part = strtok(NULL, " "))
        *next++ = part;
    execv(arguments[0], arguments);
    perror(arguments[0]);
    _exit(1);
}

ALONE static void child(const char *line)
{
    static unsigned chance = 1;
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", line);
    pid_t pid = fork();
    if (pid == 0)
        execute(copy);
    chance = chance * 1103515245 + 12345;
    usleep(60000 + (chance >> 16) % 250 * 1000);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void next(void)
{
    char first[4096], rest[8192];
    snprintf(first, sizeof first, "%s", getenv("NEXT"));
    char *end = strchr(first, '\n');
    *end = 0;
    snprintf(rest, sizeof rest, "%s\n%s", end + 1, first);
    setenv("NEXT", rest, 1);
    execute(first);
}

static int step(char *what)
{
    char *value = strchr(what, '=');
    value = value ? value + 1 : "";
    if (!strncmp(what, "load=", 5))
        load(value);
    else if (!strncmp(what, "home=", 5))
        return setenv("PYTHONHOME", value, 1);
    else if (!strncmp(what, "run=", 4))
        return run(value);
    else if (!strncmp(what, "nest=", 5))
        nest(value);
    else if (!strcmp(what, "unload"))
        return dlclose(library);
    else if (!strcmp(what, "block"))
        place(PROT_NONE);
    else if (!strcmp(what, "key"))
        change_key();
    else if (!strcmp(what, "native"))
        native();
    else if (!strcmp(what, "squat"))
        squat();
    else if (!strncmp(what, "child=", 6))
        child(value);
    else if (!strcmp(what, "next"))
        next();
    else
        return 1;
    return 0;
}

int main(int argc, char **argv)
{
    long long until = now() + atoll(argv[1]) * 1000000000;
    /* What it becomes ends so, too. */
    if (!getenv("BECOME")) {
        setenv("BECOME", "", 1);
        alarm(atoi(argv[1]));
    }
    printf("ready\n");
    fflush(stdout);
    while (now() < until)
        for (int i = 2; i < argc; i++)
            if (step(argv[i])) {
                fprintf(stderr, "%s fails\n", argv[i]);
                return 1;
            }
    return 0;
}
