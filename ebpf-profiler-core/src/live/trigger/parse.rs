//! Triggers as text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::bytes::Bytes;
use super::call::{self, Call};
use super::counter::COUNTERS;
use super::{BlockLatency, Event, Fentry, Futex, Kprobe, Malloc, OffCpu, Tracepoint, Trigger, Uprobe, Usdt};

/// A text that is no [`Trigger`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerError {
    text: String,
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms: Vec<&str> = Trigger::FORMS.iter().map(|&(form, _)| form).collect();
        write!(f, "{:?} is no trigger; choose one of: {}", self.text, forms.join(", "))
    }
}

impl std::error::Error for TriggerError {}

impl FromStr for Trigger {
    type Err = TriggerError;

    fn from_str(text: &str) -> Result<Trigger, TriggerError> {
        parse(text).ok_or_else(|| TriggerError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Trigger> {
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    if let Some(&counter) = COUNTERS.iter().find(|counter| counter.name == name) {
        let period =
            rest.map_or(Some(counter.period), |rest| rest.parse().ok().filter(|&period| period > 0))?;
        return Some(Trigger { event: Event::Counter { counter, period } });
    }
    match (name, rest) {
        ("cpu", None) => Some(Trigger::cpu()),
        ("malloc", rest) => malloc(rest).map(Trigger::from),
        ("malloc-live", rest) => malloc(rest).map(|malloc| malloc.live().into()),
        ("block-latency", None) => Some(BlockLatency::longer_than(Duration::ZERO).into()),
        ("block-latency", Some(rest)) => duration(rest).map(|least| BlockLatency::longer_than(least).into()),
        ("block-io", None) => Some(Tracepoint::block_io().into()),
        ("off-cpu", rest) => off_cpu(rest).map(Trigger::from),
        ("off-cpu-states", rest) => off_cpu(rest).map(|off_cpu| off_cpu.by_state().into()),
        ("off-cpu-wakers", rest) => off_cpu(rest).map(|off_cpu| off_cpu.wakers().into()),
        ("off-cpu-states-wakers", rest) => off_cpu(rest).map(|off_cpu| off_cpu.by_state().wakers().into()),
        ("futex", None) => Some(Futex::longer_than(Duration::ZERO).into()),
        ("futex", Some(rest)) => duration(rest).map(|threshold| Futex::longer_than(threshold).into()),
        ("uprobe", Some(rest)) => probe(rest, false).map(Trigger::from),
        ("uretprobe", Some(rest)) => probe(rest, true).map(Trigger::from),
        ("kprobe", Some(rest)) => kprobe(rest, false).map(Trigger::from),
        ("kretprobe", Some(rest)) => kprobe(rest, true).map(Trigger::from),
        ("fentry", Some(rest)) => fentry(rest, false).map(Trigger::from),
        ("fexit", Some(rest)) => fentry(rest, true).map(Trigger::from),
        ("usdt", Some(rest)) => usdt(rest).map(Trigger::from),
        ("tracepoint", Some(rest)) => {
            let (group, rest) = rest.split_once(':')?;
            let (name, field) =
                rest.split_once(':').map_or((rest, None), |(name, field)| (name, Some(field)));
            let is_name = |text: &str| {
                !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            };
            let is_valid = is_name(group) && is_name(name) && field.is_none_or(is_name);
            let tracepoint = Tracepoint::new(group, name);
            is_valid.then(|| field.map_or(tracepoint.clone(), |field| tracepoint.clone().field(field)).into())
        }
        _ => None,
    }
}

fn off_cpu(rest: Option<&str>) -> Option<OffCpu> {
    let Some(rest) = rest else { return Some(OffCpu::longer_than(Duration::ZERO)) };
    let (threshold, probability) = rest.split_once(':').unwrap_or((rest, "1"));
    let probability = probability.parse().ok().filter(|share| (1e-6..=1.0).contains(share))?;
    Some(OffCpu::longer_than(duration(threshold)?).probability(probability))
}

fn probe(rest: &str, is_return: bool) -> Option<Uprobe> {
    let ([file, function], value) = names(rest)?;
    Some(Uprobe { call: Call::parse(is_return, value)?, ..Uprobe::entry(file, function) })
}

fn kprobe(rest: &str, is_return: bool) -> Option<Kprobe> {
    let ([function], value) = names(rest)?;
    Some(Kprobe { call: Call::parse(is_return, value)?, ..Kprobe::entry(function) })
}

fn fentry(rest: &str, is_return: bool) -> Option<Fentry> {
    let ([function], value) = names(rest)?;
    Some(Fentry { call: Call::parse(is_return, value)?, ..Fentry::entry(function) })
}

fn usdt(rest: &str) -> Option<Usdt> {
    let ([file, provider, name], value) = names(rest)?;
    let usdt = Usdt::new(file, provider, name);
    Some(match value {
        None => usdt,
        Some(value) => usdt.argument(call::argument(value)?),
    })
}

/// Parses the rest of `malloc[:BYTES][:FILE]`.
fn malloc(rest: Option<&str>) -> Option<Malloc> {
    let Some(rest) = rest else { return Some(Malloc::of_c_library()) };
    let (first, others) = rest.split_once(':').map_or((rest, None), |(first, rest)| (first, Some(rest)));
    let (period, file) = match Bytes::parse(first) {
        Some(Bytes(bytes)) => (Some(bytes), others),
        None => (None, Some(rest)),
    };
    let malloc = match file {
        Some("") => return None,
        Some(file) => Malloc::of(file),
        None => Malloc::of_c_library(),
    };
    Some(period.map_or(malloc.clone(), |bytes| malloc.every(bytes)))
}

/// Splits a text into names, none of them empty, and a last part, which may be missing.
fn names<const N: usize>(text: &str) -> Option<([&str; N], Option<&str>)> {
    let mut parts = text.split(':');
    let mut names = [""; N];
    for name in &mut names {
        *name = parts.next().filter(|name| !name.is_empty())?;
    }
    let last = parts.next();
    parts.next().is_none().then_some((names, last))
}

/// Parses a number of `ns`, `us`, `ms` or `s`.
fn duration(text: &str) -> Option<Duration> {
    let units = [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, unit) = units.iter().find_map(|&(unit, nanos)| Some((text.strip_suffix(unit)?, nanos)))?;
    let number: u64 = number.parse().ok()?;
    Some(Duration::from_nanos(number.checked_mul(unit)?))
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.event {
            Event::Cpu => f.write_str("cpu"),
            Event::OffCpu(OffCpu { threshold, probability, by_state, has_wakers }) => {
                f.write_str(if *by_state { "off-cpu-states" } else { "off-cpu" })?;
                f.write_str(if *has_wakers { "-wakers" } else { "" })?;
                if !threshold.is_zero() || *probability < 1.0 {
                    write!(f, ":{threshold:?}")?;
                }
                if *probability < 1.0 { write!(f, ":{probability}") } else { Ok(()) }
            }
            Event::Malloc(malloc) => malloc.fmt(f),
            Event::Block(BlockLatency { threshold }) if threshold.is_zero() => f.write_str("block-latency"),
            Event::Block(BlockLatency { threshold }) => write!(f, "block-latency:{threshold:?}"),
            Event::Uprobe(probe) => {
                let name = if probe.call.is_return { "uretprobe" } else { "uprobe" };
                write!(f, "{name}:{}:{}{}", probe.file.display(), probe.function, probe.call.value)
            }
            Event::Kprobe(probe) => {
                let name = if probe.call.is_return { "kretprobe" } else { "kprobe" };
                write!(f, "{name}:{}{}", probe.function, probe.call.value)
            }
            Event::Fentry(Fentry { function, call }) => {
                let name = if call.is_return { "fexit" } else { "fentry" };
                write!(f, "{name}:{function}{}", call.value)
            }
            Event::Usdt(Usdt { file, provider, name, argument }) => {
                write!(f, "usdt:{}:{provider}:{name}", file.display())?;
                argument.map_or(Ok(()), |index| write!(f, ":arg{index}"))
            }
            Event::Tracepoint(Tracepoint { named: Some((name, ..)), .. }) => f.write_str(name),
            Event::Tracepoint(Tracepoint { group, name, field, .. }) => {
                write!(f, "tracepoint:{group}:{name}")?;
                field.as_ref().map_or(Ok(()), |field| write!(f, ":{field}"))
            }
            Event::Futex(Futex { threshold }) if threshold.is_zero() => f.write_str("futex"),
            Event::Futex(Futex { threshold }) => write!(f, "futex:{threshold:?}"),
            Event::Own { name, .. } => write!(f, "own:{name}"),
            Event::Counter { counter, period } if *period == counter.period => f.write_str(counter.name),
            Event::Counter { counter, period } => write!(f, "{}:{period}", counter.name),
        }
    }
}

impl fmt::Display for Malloc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_live { "malloc-live" } else { "malloc" })?;
        if let Some(period) = self.period {
            write!(f, ":{}", Bytes(period))?;
        }
        self.file.as_ref().map_or(Ok(()), |file| write!(f, ":{}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for text in [
            "cpu",
            "off-cpu",
            "off-cpu:1ms",
            "off-cpu:250µs:0.1",
            "uprobe:libc.so.6:malloc",
            "uprobe:/bin/cat:main:arg5",
            "uretprobe:libc.so.6:read:result",
            "uprobe:libc.so.6:read:time",
            "uprobe:/usr/lib/lib*.so:mem*",
            "usdt:libstdc++.so.6:libstdcxx:throw",
            "usdt:/usr/bin/python3:python:function__entry:arg2",
            "tracepoint:syscalls:sys_enter_read",
            "tracepoint:syscalls:sys_enter_read:count",
            "off-cpu-states:1ms",
            "off-cpu-wakers",
            "off-cpu-states-wakers:1ms",
            "off-cpu-wakers:1ms:0.5",
            "kprobe:vfs_read",
            "kprobe:vfs_*:arg2",
            "kprobe:vfs_fsync_range:time",
            "kretprobe:vfs_read:result",
            "fentry:vfs_read",
            "fentry:vfs_*:arg2",
            "fentry:vfs_read:time",
            "fexit:vfs_read:result",
            "futex",
            "futex:1ms",
            "block-io",
            "page-faults",
            "major-faults:100",
            "cycles",
            "cache-misses:1",
            "malloc",
            "malloc:/usr/bin/redis-server",
            "malloc:64KiB",
            "malloc:1MiB:libjemalloc.so.2",
            "malloc-live",
            "malloc-live:1",
            "malloc-live:512KiB:/usr/bin/redis-server",
            "malloc-live:libmimalloc.so*",
            "block-latency",
            "block-latency:1ms",
        ] {
            assert_eq!(text.parse::<Trigger>().map(|trigger| trigger.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn other_texts_are_rejected_with_the_forms() {
        for text in [
            "",
            "cpu:1",
            "off-cpu:",
            "off-cpu:1",
            "off-cpu:1ms:0",
            "off-cpu:1ms:2",
            "off-cpu:99999999999999999999s",
            "uprobe:libc.so.6",
            "uprobe::malloc",
            "uprobe:libc.so.6:malloc:arg6",
            "uprobe:libc.so.6:malloc:result",
            "uretprobe:libc.so.6:malloc:arg0",
            "kprobe:",
            "kprobe:vfs_read:result",
            "kprobe:vfs_read:arg6",
            "kretprobe:vfs_read:time",
            "kprobe:vfs_read:arg0:arg1",
            "fentry:",
            "fentry:vfs_read:result",
            "fentry:vfs_read:arg6",
            "fexit:vfs_read:time",
            "usdt:libc.so.6:libc",
            "usdt:libc.so.6::setjmp",
            "usdt:libc.so.6:libc:setjmp:time",
            "usdt:libc.so.6:libc:setjmp:arg0:arg1",
            "usdt:libc.so.6:libc:setjmp:arg-1",
            "tracepoint:syscalls",
            "tracepoint:../../x:y",
            "tracepoint:x:y:",
            "tracepoint:x:y:z:a",
            "uretprobe:libc.so.6:malloc:time",
            "futex:1",
            "block-io:1",
            "page-faults:0",
            "cycles:",
            "malloc:",
            "malloc:1:",
            "malloc-live:",
            "block-latency:",
            "block-latency:1",
        ] {
            let error = text.parse::<Trigger>().unwrap_err().to_string();
            assert!(error.contains("uretprobe:FILE:FUNCTION"), "{error}");
        }
    }
}
