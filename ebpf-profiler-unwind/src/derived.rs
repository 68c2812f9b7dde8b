//! Rules derived from instructions: code without unwind data, unwound exactly.
//!
//! Hand-written assembly has no unwind data in most libraries: the kernels of OpenBLAS, the codecs x264 and x265. A walk guesses
//! there, and a guess is wrong wherever the frame pointer holds data. [`Tables::with_derived_rules`] and
//! [`Table::with_derived_rules`] read such code instead, and add ordinary rows to the table. A running profiler does the same for files in
//! which it had to guess, in a background thread:
//!
//! ```text
//! dgemm_kernel_HASWELL of OpenBLAS                               cfa         rbp            found by
//!   48 83 ec 60            sub  rsp, 0x60                        rsp + 8     unchanged      entry: called
//!   48 89 1c 24            mov  [rsp], rbx                       rsp + 104   unchanged      rsp = cfa - 104
//!   48 89 6c 24 08         mov  [rsp + 8], rbp                   rsp + 104   unchanged
//!   4c 89 64 24 10         mov  [rsp + 16], r12                  rsp + 104   [cfa - 96]     [cfa - 96] = the caller's rbp
//!   …
//!   48 89 e3               mov  rbx, rsp                         rsp + 104   [cfa - 96]
//!   48 81 ec 80 70 00 00   sub  rsp, 0x7080                      rsp + 104   [cfa - 96]     rbx = cfa - 104, too
//!   48 81 e4 00 f0 ff ff   and  rsp, -0x1000                     rsp + 28904 [cfa - 96]
//!   48 83 ff 00            cmp  rdi, 0                           rbx + 104   [cfa - 96]     rsp is moved by an unknown distance
//!   …                      28 KB, in which rbp is a pointer      rbx + 104   [cfa - 96]
//!   48 89 dc               mov  rsp, rbx                         rbx + 104   [cfa - 96]
//!   48 8b 1c 24            mov  rbx, [rsp]                       rsp + 104   [cfa - 96]
//!   48 8b 6c 24 08         mov  rbp, [rsp + 8]                   rsp + 104   [cfa - 96]
//!   …
//!   48 83 c4 60            add  rsp, 0x60                        rsp + 104   [cfa - 96]
//!   c3                     ret                                   rsp + 8     unchanged      proof: rsp is at the return address
//! ```
//!
//! # Method
//!
//! Each instruction is executed on a state that holds what is known of its registers: an offset from the canonical frame address,
//! the caller's frame pointer, the return address, or nothing. All paths from a start are followed; where two of them meet, only
//! what both agree on remains.
//!
//! A function begins behind padding, behind a return or a jump, or where accepted code calls. Code behind a call and padding is the
//! same function's, if it proves that, else the next one's. That is an assumption, so it is
//! tried, and the code is accepted only if it proves it: some path returns, and each path that returns does so with the stack
//! pointer at the return address. Otherwise the code has no rule, and walks guess as before:
//!
//! | refused | example |
//! | --- | --- |
//! | an instruction that cannot be decoded | constants between functions |
//! | a path that returns or pops elsewhere | `push target; ret`; the part of a function that only a jump table leads to |
//! | paths that meet with different frames | |
//! | instructions that overlap | |
//! | no path that returns | loops without an end |
//! | more than 2²⁰ instructions executed from one start, 2²⁴ in a file | code that is made to take long |
//!
//! Two things are assumed without a proof: callees preserve the registers that the ABI tells them to, and stores to addresses that do
//! not come from the stack pointer do not overwrite what the function saved.
//!
//! Frames that are realigned have two parts. If no register leads to the upper one any more, a word of the lower one does that the
//! function stored there: `cfa = [rsp + 4096] + 8`.
//!
//! # Accuracy
//!
//! The test `derived_rules` derives the rules of functions that *have* unwind data, and compares them with it, instruction by
//! instruction. In glibc 2.36, 93.2 % of the bytes of code are equal and 6.8 % have no rule; the others, 450 bytes, are in functions of
//! its `mpn` that push registers of which the unwind data tells nothing. The test `steps` compares walks with a shadow stack at each
//! step of a running program.
//!
//! | library | code without unwind data | of it, other than padding, has derived rules |
//! | --- | --- | --- |
//! | OpenBLAS, in numpy 2.4.6's wheel | 2.9 MB | 99.9 % |
//! | OpenBLAS 0.3.21 of Debian | 11.7 MB | 99.8 % |
//! | x265 3.5 | 12.4 MB | 99.7 % |
//! | x264 0.164 | 0.4 MB | 95.9 % |
//! | OpenSSL 3.0: tables of numbers | 0.2 MB | 0.8 % |
//!
//! # Cost
//!
//! 60 to 160 ms of CPU time per MiB of such code, thus more than everything else: it is an option, for compilers that run while
//! nobody waits. A running profiler gives it 1 % of a CPU, and 2 s at first. At most 256 KiB of code are followed at a time, which takes some 12 MiB of memory.
//!
//! [`Tables::with_derived_rules`]: crate::Tables::with_derived_rules
//! [`Table::with_derived_rules`]: crate::Table::with_derived_rules
