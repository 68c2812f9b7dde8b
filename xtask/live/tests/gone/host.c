// Loads each library that a line of its input names, calls its function, and closes it.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char path[4096];
    while (fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = 0;
        void *library = dlopen(path, RTLD_NOW);
        unsigned long (*run)(void) = library ? (unsigned long (*)(void))dlsym(library, "run") : NULL;
        if (!run) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        run();
        dlclose(library);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
