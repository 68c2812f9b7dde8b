//! What the example programs share, so that each of them shows the profiler and little else.

mod core_file;

mod memory;

mod options;

mod print;

mod privilege;

mod recorded_stack;

mod report;

mod signal;

pub use core_file::{Call, CoreFile, Stack};
pub use memory::give_back;
pub use options::{Options, Usage};
pub use print::print;
pub use privilege::explain_start_error;
pub use recorded_stack::RecordedStack;
pub use report::Reporter;
pub use signal::{Signals, interrupted, notice_interrupts, sleep_until_interrupted};

/// Ends a program with one sentence about what went wrong.
pub fn fail(error: impl std::fmt::Display) -> ! {
    eprintln!("error: {error}");
    std::process::exit(1);
}

/// The README's programs, compiled with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
