// Spins in a coroutine on a stack of its own, body > inner > spin, that was made by makecontext ("ucontext") or by the code that
// boost.context and PHP have ("fcontext").
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define OWN __attribute__((noinline))
enum { SIZE = 256 * 1024 };

static volatile unsigned long sum;
static ucontext_t outside, inside;

OWN void spin(void) {
    for (long i = 0; i < 1000000; i++) sum += i;
}
OWN void inner(void) { spin(); sum++; }

void *make_fcontext(void *top, size_t size, void (*function)(void *));
void *jump_fcontext(void *to, void *data);
__asm__(
    ".text\n.p2align 4\n.globl make_fcontext\n.type make_fcontext, @function\nmake_fcontext:\n"
    "  movq %rdi, %rax\n  andq $-16, %rax\n  leaq -0x40(%rax), %rax\n  movq %rdx, 0x28(%rax)\n"
    "  stmxcsr (%rax)\n  fnstcw 4(%rax)\n"
    "  leaq 1f(%rip), %rcx\n  movq %rcx, 0x38(%rax)\n  leaq 2f(%rip), %rcx\n  movq %rcx, 0x30(%rax)\n  ret\n"
    "1: push %rbp\n  jmp *%rbx\n"
    "2: xorq %rdi, %rdi\n  call _exit@PLT\n  hlt\n.size make_fcontext, .-make_fcontext\n"
    ".p2align 4\n.globl jump_fcontext\n.type jump_fcontext, @function\njump_fcontext:\n"
    "  leaq -0x38(%rsp), %rsp\n  stmxcsr (%rsp)\n  fnstcw 4(%rsp)\n"
    "  movq %r12, 0x8(%rsp)\n  movq %r13, 0x10(%rsp)\n  movq %r14, 0x18(%rsp)\n  movq %r15, 0x20(%rsp)\n"
    "  movq %rbx, 0x28(%rsp)\n  movq %rbp, 0x30(%rsp)\n  movq %rsp, %rax\n  movq %rdi, %rsp\n  movq 0x38(%rsp), %r8\n"
    "  ldmxcsr (%rsp)\n  fldcw 4(%rsp)\n"
    "  movq 0x8(%rsp), %r12\n  movq 0x10(%rsp), %r13\n  movq 0x18(%rsp), %r14\n  movq 0x20(%rsp), %r15\n"
    "  movq 0x28(%rsp), %rbx\n  movq 0x30(%rsp), %rbp\n  leaq 0x40(%rsp), %rsp\n  movq %rax, %rdi\n  jmp *%r8\n"
    ".size jump_fcontext, .-jump_fcontext\n");

static void ucontext_body(void) {
    for (;;) {
        inner();
        swapcontext(&inside, &outside);
    }
}

static void fcontext_body(void *from) {
    for (;;) {
        inner();
        from = jump_fcontext(from, 0);
    }
}

int main(int count, char **arguments) {
    char *stack = malloc(SIZE);
    if (count > 1 && !strcmp(arguments[1], "fcontext")) {
        void *to = make_fcontext(stack + SIZE, SIZE, fcontext_body);
        for (;;) to = jump_fcontext(to, 0);
    }
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = SIZE;
    inside.uc_link = 0;
    makecontext(&inside, ucontext_body, 0);
    for (;;) swapcontext(&outside, &inside);
}
