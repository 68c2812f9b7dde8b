//! One step from a frame to its caller.
