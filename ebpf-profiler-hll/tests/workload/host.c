/* A program that embeds an interpreter: host SCRIPT */
#include <Python.h>

int main(int count, char **arguments) {
    FILE *script = fopen(arguments[count - 1], "r");
    if (!script) return 2;
    Py_Initialize();
    return PyRun_SimpleFile(script, arguments[count - 1]);
}
