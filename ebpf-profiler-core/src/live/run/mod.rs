//! A run of the profiler: configured, loaded, running on its threads, and controlled by handles.

pub(super) mod budget;

pub(super) mod builder;

pub(super) mod control;

pub(super) mod enrichment;

pub(super) mod handle;

pub(super) mod health;

pub(super) mod interval;

pub(super) mod loader;

pub(super) mod options;

pub(super) mod profiler;

pub(super) mod requirements;

pub(super) mod source;

pub(super) mod threads;
