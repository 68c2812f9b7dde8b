//! Recordings of a machine that was thought up, and what a replay makes of them.

mod damage;
mod disk;
mod files;
mod round_trip;
mod world;
