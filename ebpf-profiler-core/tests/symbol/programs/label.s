# A label without type and size, and behind it a function with unwind data whose symbol is stripped.
    .text
    .globl _start
_start:
    xor %ebp, %ebp
    call .Lfunction
    hlt

.Lfunction:
    .cfi_startproc
    .skip 200, 0x90
    ret
    .cfi_endproc
