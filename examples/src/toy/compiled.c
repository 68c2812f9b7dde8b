/* toy-compiled: a language that compiles its functions to machine code of x86_64.
 *
 * gcc -O2 -rdynamic -o compiled compiled.c && ./compiled      runs script.toy until it is killed
 *
 * ./compiled 300      compiles another generation of the script after 300 calls of `main`, at the same addresses
 * ./compiled 0 1      does 1 round of work in the place of 100,000, so that calls and returns take most of the time
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum kind { END, WORK, CALL, CALL_C };
struct op { enum kind kind; uint32_t line; long count; struct function *callee; };
/* A position of compiled code: its distance from the start, and its line. */
struct position { uint32_t distance, line; };
struct function {
    const char *name;
    uint32_t first_line, serial, positions;
    uint8_t *code;
    const struct op *source;
    struct position table[4];
};

/* Memory for compiled code, which the runtime owns. */
enum { CODE_SIZE = 1 << 16 };
uint8_t *toy_code;
static uint8_t *next;
static long rounds = 100000;

static void emit(const char *bytes, int count) {
    memcpy(next, bytes, count);
    next += count;
}

static void emit_number(uint64_t number, int size) {
    memcpy(next, &number, size);
    next += size;
}

/* Calls C code that calls the script back. It has no frame pointer. */
__attribute__((noinline, optimize("omit-frame-pointer"))) void toy_each(struct function *function) {
    volatile int times = 2;
    while (times-- > 0) ((void (*)(struct function *))function->code)(function);
}

static void compile(struct function *function) {
    function->code = next;
    emit("\x55\x48\x89\xe5\x57\x50", 6); /* push rbp; mov rbp, rsp; push rdi; push rax */
    function->positions = 0;
    for (const struct op *op = function->source; op->kind != END; op++) {
        function->table[function->positions++] = (struct position){next - function->code, op->line};
        if (op->kind == WORK) {
            emit("\xb9", 1); /* mov ecx, count; sub ecx, 1; jnz -5 */
            emit_number(op->count * rounds, 4);
            emit("\x83\xe9\x01\x75\xfb", 5);
        } else {
            emit("\x48\xbf", 2); /* movabs rdi, callee; movabs rax, code; call rax */
            emit_number((uintptr_t)op->callee, 8);
            emit("\x48\xb8", 2);
            emit_number(op->kind == CALL ? (uintptr_t)op->callee->code : (uintptr_t)toy_each, 8);
            emit("\xff\xd0", 2);
        }
    }
    emit("\xc9\xc3", 2); /* leave; ret */
}

/* script.toy, in two generations, whose names end with 0 and 1:
 *   1  def draw:        4  def frame:              8  def main:
 *   2      work 3       5      each draw (in C)    9      call frame
 *                       6      work 1
 */
static struct function functions[3];
static const struct op draw_code[] = {{WORK, 2, 3, 0}, {END, 0, 0, 0}};
static const struct op frame_code[] = {{CALL_C, 5, 0, &functions[0]}, {WORK, 6, 2, 0}, {END, 0, 0, 0}};
static const struct op main_code[] = {{CALL, 9, 0, &functions[1]}, {END, 0, 0, 0}};
static const struct function sources[] = {
    {.name = "draw", .first_line = 1, .source = draw_code},
    {.name = "frame", .first_line = 4, .source = frame_code},
    {.name = "main", .first_line = 8, .source = main_code},
};
static char names[2][3][16];

/* Compiles the script anew, over the code and the functions of the last generation. */
static void compile_all(uint32_t generation) {
    next = toy_code;
    for (int index = 0; index < 3; index++) {
        struct function *function = &functions[index];
        char *name = names[generation % 2][index];
        strcpy(name, sources[index].name);
        strcat(name, generation % 2 ? "1" : "0");
        function->serial = generation * 3 + index + 1;
        function->name = name;
        function->first_line = sources[index].first_line;
        function->source = sources[index].source;
        compile(function);
    }
}

int main(int count, char **arguments) {
    /* Calls of the script in a generation; 0 for one generation. */
    long calls = count > 1 ? atol(arguments[1]) : 0;
    if (count > 2) rounds = atol(arguments[2]);
    toy_code = mmap(0, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (toy_code == MAP_FAILED) return 1;
    for (uint32_t generation = 0;; generation++) {
        compile_all(generation);
        for (long call = 0; calls == 0 || call < calls; call++)
            ((void (*)(struct function *))functions[2].code)(&functions[2]);
    }
}
