/* toy-array: a language whose interpreter keeps its frames in an array that grows.
 *
 * gcc -O2 -rdynamic -o array array.c && ./array      runs script.toy until it is killed
 */
#include <stdint.h>
#include <stdlib.h>

enum kind { END, WORK, CALL };
struct op { enum kind kind; uint32_t line; long count; const struct function *callee; };
struct function { const char *name; uint32_t first_line, serial; const struct op *code; };
struct frame { const struct function *function; volatile uint32_t line; };

/* The frames of the script: `top` is the first free element. */
struct machine { struct frame *frames, *volatile top; size_t capacity; } toy_machine;
static volatile long sum;

static struct frame *push(const struct function *function) {
    struct machine *machine = &toy_machine;
    size_t count = machine->top - machine->frames;
    if (count == machine->capacity) {
        machine->capacity += 4;
        machine->frames = realloc(machine->frames, machine->capacity * sizeof(struct frame));
        machine->top = machine->frames + count;
    }
    struct frame *frame = machine->top;
    frame->function = function;
    frame->line = function->first_line;
    __asm__ volatile("" ::: "memory"); /* the frame before the pointer */
    machine->top = frame + 1;
    return frame;
}

/* The interpreter loop: one call of it runs one frame. */
__attribute__((noinline)) void toy_array_run(const struct function *function) {
    size_t index = push(function) - toy_machine.frames;
    for (const struct op *op = function->code; op->kind != END; op++) {
        toy_machine.frames[index].line = op->line;
        if (op->kind == CALL) toy_array_run(op->callee);
        for (long index = 0; index < op->count; index++) sum += index;
    }
    toy_machine.top--;
}

/* script.toy:
 *   1  def draw:        4  def frame:      8  def main:
 *   2      work 3       5      call draw   9      call frame
 *                       6      work 1
 */
static const struct op draw_code[] = {{WORK, 2, 3000000, 0}, {END, 0, 0, 0}};
static const struct function draw = {"draw", 1, 1, draw_code};
static const struct op frame_code[] = {{CALL, 5, 0, &draw}, {WORK, 6, 1000000, 0}, {END, 0, 0, 0}};
static const struct function frame = {"frame", 4, 2, frame_code};
static const struct op main_code[] = {{CALL, 9, 0, &frame}, {END, 0, 0, 0}};
static const struct function script = {"main", 8, 3, main_code};

int main(void) {
    for (;;) toy_array_run(&script);
}
