//! Frames of interpreters and of compiled code, walked by the kernel side's walker in made-up
//! memory.

#![expect(clippy::unwrap_used, reason = "a test")]

mod described;

mod interpreter;

mod stack;
