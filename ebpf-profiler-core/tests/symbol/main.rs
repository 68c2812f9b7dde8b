//! Names and lines against tools that we didn't write, for every address of small programs.
//!
//! The programs are compiled here, so a compiler and binutils have to be there; without them the tests fail and
//! name the package.

mod address;
#[cfg(feature = "symbolize")]
mod demangle;
mod kernel;
mod names;
mod program;
#[cfg(feature = "symbolize")]
mod source;
mod tool;
