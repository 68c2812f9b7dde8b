//! Calls of functions: the edge at which a probe is, and its value.

use std::fmt;

use super::operand::{MAX_ARGUMENTS, Operand};
use super::{Walk, place::Place};
use crate::profile::Unit;

/// The edge of a function's call, and the value of a sample there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) is_return: bool,
    pub(super) value: Value,
}

/// The value of a sample at a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Count,
    Argument(u32),
    Result,
    /// Nanoseconds from the entry to the return.
    Time,
}

impl Call {
    pub(super) const ENTRY: Call = Call { is_return: false, value: Value::Count };
    pub(super) const EXIT: Call = Call { is_return: true, value: Value::Count };

    /// Takes argument `index` as the value of an entry. Other calls, and other indices than 0 to 5,
    /// count.
    pub(super) fn argument(self, index: u32) -> Call {
        let is_one = !self.is_return && index < MAX_ARGUMENTS;
        Call { value: if is_one { Value::Argument(index) } else { Value::Count }, ..self }
    }

    /// Takes the result as the value of a return.
    pub(super) fn result(self) -> Call {
        Call { value: if self.is_return { Value::Result } else { Value::Count }, ..self }
    }

    /// Takes the time until the return as the value of an entry.
    pub(super) fn time(self) -> Call {
        Call { value: if self.is_return { Value::Count } else { Value::Time }, ..self }
    }

    /// Parses the last part of a trigger's text.
    pub(super) fn parse(is_return: bool, value: Option<&str>) -> Option<Call> {
        let call = if is_return { Call::EXIT } else { Call::ENTRY };
        Some(match value {
            None => call,
            Some("result") if is_return => call.result(),
            Some("time") if !is_return => call.time(),
            Some(value) if !is_return => {
                call.argument(argument(value).filter(|&index| index < MAX_ARGUMENTS)?)
            }
            _ => return None,
        })
    }

    /// Returns `true` if the value is a time.
    pub(super) fn is_time(self) -> bool {
        self.value == Value::Time
    }

    pub(super) fn unit(self) -> Unit {
        if self.is_time() { Unit::Nanoseconds } else { Unit::Count }
    }

    /// Returns a place of the function with the operand of the value.
    pub(super) fn place(self, place: Place) -> Place {
        let operand = match self.value {
            Value::Count | Value::Time => Operand::ONE,
            Value::Argument(index) => Operand::argument(index),
            Value::Result => Operand::RESULT,
        };
        Place { cookie: operand.cookie(), ..place }
    }

    /// Returns the names of the programs for this value.
    pub(super) fn programs(self) -> &'static [&'static str] {
        if self.is_time() { &["entered", "left"] } else { &["probed"] }
    }

    /// Returns the walk that these programs call.
    pub(super) fn walk(self) -> Option<Walk> {
        if self.is_time() {
            Walk::span("PROBE_WALKS", "walk_left")
        } else {
            Walk::event("PROBE_WALKS", "walk_probed")
        }
    }
}

/// Parses `argN`.
pub(super) fn argument(text: &str) -> Option<u32> {
    text.strip_prefix("arg")?.parse().ok()
}

/// The last part of a trigger's text.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count => Ok(()),
            Value::Argument(index) => write!(f, ":arg{index}"),
            Value::Result => f.write_str(":result"),
            Value::Time => f.write_str(":time"),
        }
    }
}
