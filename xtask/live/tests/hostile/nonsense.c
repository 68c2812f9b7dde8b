/* Claims to be a runtime, with structures full of nonsense that another thread changes all the time:
 * main > attack > the runtime's loop > spin, for ever. Built with -DPERL, -DPHP, -DRUBY, -DLUAJIT or -DHOTSPOT. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#define ALONE __attribute__((noinline, noipa))
#define WORDS 8192

static volatile uint64_t heap[WORDS];

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t x = (*state ^ *state >> 30) * 0xbf58476d1ce4e5b9;
    return x ^ x >> 27;
}

/* Addresses of the heap, of themselves and of nothing, tagged or not; small numbers, lengths, text. */
static uint64_t nonsense(uint64_t *state, unsigned at)
{
    uint64_t x = next_random(state), place = x >> 8;
    switch (x % 10) {
    case 0: case 1: case 2: case 3: return (uint64_t)&heap[place % WORDS];
    case 4: return (uint64_t)&heap[at];
    case 5: return (uint64_t)&heap[place % WORDS] + 1;
    case 6: return place & 0xff;
    case 7: return UINT64_MAX >> (place & 31);
    case 8: return 0x0061006100610061;
    default: return place;
    }
}

static void *scribble(void *unused)
{
    uint64_t state = 1;
    for (;;) {
        unsigned at = next_random(&state) % WORDS;
        heap[at] = nonsense(&state, at);
    }
    return unused;
}

ALONE void spin(void)
{
    for (volatile int i = 0; i < 1000000; i++);
}

#if defined PERL
pthread_key_t PL_thr_key;
const unsigned char PL_revision = 5, PL_version = 36;
void Perl_pp_nextstate(void) {}
ALONE int Perl_runops_standard(void) { spin(); return 1; }
static void begin(void)
{
    pthread_key_create(&PL_thr_key, NULL);
    pthread_setspecific(PL_thr_key, (void *)heap);
}
ALONE int attack(void) { return Perl_runops_standard() + 1; }

#elif defined PHP
const char *header = "X-Powered-By: PHP/8.2.36";
uint64_t executor_globals[256];
ALONE int execute_ex(void) { spin(); return 1; }
static void begin(void) { executor_globals[488 / 8] = (uint64_t)heap; }
ALONE int attack(void) { return execute_ex() + 1; }

#elif defined RUBY
const char ruby_version[8] = "3.4.7";
static __thread volatile uint64_t *current;
static volatile uint64_t *symbols;
uint64_t rb_errinfo(void) { return current[17]; }
uint64_t rb_id2str(uint64_t id) { return symbols[id]; }
/* No other function has so many indirect jumps. */
int vm_loop(void);
__asm__(".text\n.type vm_loop, @function\nvm_loop:\n.cfi_startproc\n"
        "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\ncall spin\nadd $8, %rsp\n.cfi_adjust_cfa_offset -8\nret\n"
        ".rept 120\njmp *%rax\n.endr\n.cfi_endproc\n.size vm_loop, . - vm_loop\n");
ALONE int rb_vm_exec(void) { return vm_loop() + 1; }
static void begin(void) { current = symbols = heap; }
ALONE int attack(void) { return rb_vm_exec() + 1; }

#elif defined LUAJIT
void luaJIT_setmode(void) {}
int lua_gethookmask(void *state);
/* A loop with the frame of the interpreter, whose state is nonsense in all slots. */
int lua_enter(volatile uint64_t *state);
__asm__(".text\n.globl lua_gethookmask\n.type lua_gethookmask, @function\nlua_gethookmask:\n"
        "mov 16(%rdi), %rax\nmovzbl 0x91(%rax), %eax\nret\n.size lua_gethookmask, . - lua_gethookmask\n"
        ".type lua_enter, @function\nlua_enter:\n.cfi_startproc\n"
        "push %rbp\npush %rbx\npush %r15\npush %r14\nsub $40, %rsp\njmp lua_loop\n.cfi_endproc\n"
        ".size lua_enter, . - lua_enter\n"
        ".type lua_loop, @function\nlua_loop:\n.cfi_startproc\n.cfi_def_cfa_offset 80\n.cfi_offset 6, -16\n"
        ".cfi_offset 3, -24\n.cfi_offset 15, -32\n.cfi_offset 14, -40\n"
        "mov %rdi, (%rsp)\nmov %rdi, 8(%rsp)\nmov %rdi, 16(%rsp)\nmov %rdi, 24(%rsp)\nmov %rdi, 32(%rsp)\n"
        ".fill 5000, 1, 0x90\ncall spin\n"
        "add $40, %rsp\npop %r14\npop %r15\npop %rbx\npop %rbp\nret\n.cfi_endproc\n"
        ".size lua_loop, . - lua_loop\n");
static void begin(void) {}
ALONE int attack(void) { return lua_enter(heap) + 1; }

#elif defined HOTSPOT
uint64_t gHotSpotVMStructs, gHotSpotVMTypes, gHotSpotVMIntConstants;
uint64_t gHotSpotVMStructEntryTypeNameOffset = 0, gHotSpotVMStructEntryFieldNameOffset = 8,
         gHotSpotVMStructEntryIsStaticOffset = 16, gHotSpotVMStructEntryOffsetOffset = 24,
         gHotSpotVMStructEntryAddressOffset = 32, gHotSpotVMStructEntryArrayStride = 40;
uint64_t gHotSpotVMTypeEntryTypeNameOffset = 0, gHotSpotVMTypeEntrySizeOffset = 8,
         gHotSpotVMTypeEntryArrayStride = 16;
uint64_t gHotSpotVMIntConstantEntryNameOffset = 0, gHotSpotVMIntConstantEntryValueOffset = 8,
         gHotSpotVMIntConstantEntryArrayStride = 16;
ALONE int java_loop(void) { spin(); return 1; }
static void begin(void) { gHotSpotVMStructs = gHotSpotVMTypes = gHotSpotVMIntConstants = (uint64_t)heap; }
ALONE int attack(void) { return java_loop() + 1; }

#endif

int main(void)
{
    uint64_t state = 2;
    for (unsigned at = 0; at < WORDS; at++)
        heap[at] = nonsense(&state, at);
    begin();
    pthread_t thread;
    pthread_create(&thread, NULL, scribble, NULL);
    puts("ready");
    fflush(stdout);
    for (;;)
        attack();
}
