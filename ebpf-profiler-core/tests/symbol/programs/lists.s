# Thirty thousand functions that all have one list of sixty thousand ranges, and as many units that share their code.
    .text
    .globl  _start
    .type   _start, @function
_start:
    mov     $60, %eax
    xor     %edi, %edi
    syscall
    .size   _start, . - _start

    .section .debug_abbrev,"",@progbits
    .uleb128 1, 0x11                    # compile unit with children: low_pc, high_pc
    .byte   1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
    .uleb128 2, 0x2e                    # subprogram: ranges
    .byte   0
    .uleb128 0x55, 0x17, 0, 0
    .byte   0

    .section .debug_ranges,"",@progbits
    .rept   60000
    .quad   1, 2
    .endr
    .quad   0, 0

    .section .debug_info,"",@progbits
    .long   .Lend - .Lbegin
.Lbegin:
    .short  4
    .long   0
    .byte   8
    .uleb128 1
    .quad   _start, 100
    .rept   30000
    .uleb128 2
    .long   0
    .endr
    .byte   0
.Lend:
    .rept   30000
    .long   25
    .short  4
    .long   0
    .byte   8
    .uleb128 1
    .quad   _start, 100
    .byte   0
    .endr
