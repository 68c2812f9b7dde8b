# What a signal handler returns to, as C libraries write it: its unwind data begins one byte early, so that who looks up
# the byte before a return address finds it. In front of it stand a function and what the assembler fills up with.
    .text
    .globl  _start
    .type   _start, @function
_start:
    .cfi_startproc
    ud2
    .cfi_endproc
    .size   _start, . - _start

    .balign 16, 0x90
    .cfi_startproc
    nop
    .type   give_back, @function
give_back:
    mov     $15, %eax
    syscall
    .cfi_endproc

    .balign 16, 0x90
    .globl  last
    .type   last, @function
last:
    ret
    .size   last, . - last
