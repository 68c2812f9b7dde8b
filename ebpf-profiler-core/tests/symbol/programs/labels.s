# Assembler: functions with and without size and type, labels within them, code behind the last function.
    .text
    .globl  _start
_start:
    call    sized
    call    unsized
    mov     $60, %eax
    xor     %edi, %edi
    syscall

    .globl  sized
    .type   sized, @function
sized:
    mov     $3, %ecx
again:
    dec     %ecx
    jnz     again
    ret
    .size   sized, . - sized

    nop
    nop

    .type   unsized, @function
unsized:
    nop
    ret
