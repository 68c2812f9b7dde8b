//! Programs that are profiled, and programs that keep the machine busy.

pub mod csharp;
pub mod document;
pub mod dump;
pub mod foreign;
pub mod go;
pub mod load;
pub mod placed;
pub mod sources;
pub mod steps;
