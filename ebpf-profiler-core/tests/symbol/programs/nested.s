# Debug information whose entries are inlined into each other half a million times: each entry is one byte.
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
    .uleb128 2, 0x2e                    # subprogram with children: low_pc, high_pc, name
    .byte   1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0x03, 0x08, 0, 0
    .uleb128 3, 0x1d                    # inlined subroutine with children and addresses
    .byte   1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
    .uleb128 4, 0x1d                    # inlined subroutine with children and nothing else
    .byte   1
    .uleb128 0, 0
    .byte   0

    .section .debug_info,"",@progbits
    .long   .Lend - .Lbegin
.Lbegin:
    .short  4
    .long   0
    .byte   8
    .uleb128 1
    .quad   _start, 100
    .uleb128 2
    .quad   _start, 100
    .asciz  "_start"
    .rept   1000
    .uleb128 3
    .quad   _start, 100
    .endr
    .rept   500000
    .uleb128 4
    .endr
.Lend:
