//! Everything else that runs.
