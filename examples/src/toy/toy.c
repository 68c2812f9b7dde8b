/* toy: a language whose interpreter keeps its frames in a linked list.
 *
 * gcc -O2 -rdynamic -o toy toy.c && ./toy      runs script.toy until it is killed
 */
#include <stdint.h>

enum kind { END, WORK, CALL };
struct op { enum kind kind; uint32_t line; long count; const struct function *callee; };
struct function { const char *name; uint32_t first_line, serial; const struct op *code; };
struct frame { struct frame *caller; const struct function *function; volatile uint32_t line; };

struct frame *volatile toy_top;
static volatile long sum;

/* The interpreter loop: one call of it runs one frame. */
__attribute__((noinline)) void toy_run(const struct function *function) {
    struct frame frame = {toy_top, function, function->first_line};
    toy_top = &frame;
    for (const struct op *op = function->code; op->kind != END; op++) {
        frame.line = op->line;
        if (op->kind == CALL) toy_run(op->callee);
        for (long index = 0; index < op->count; index++) sum += index;
    }
    toy_top = frame.caller;
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
    for (;;) toy_run(&script);
}
