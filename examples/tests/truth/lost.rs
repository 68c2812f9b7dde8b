//! Nothing is lost.
