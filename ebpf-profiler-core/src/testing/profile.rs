//! Profiles from folded text.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use hashbrown::HashMap;

use crate::process::{Module, ModuleId};
use crate::profile::{Process, Profile, ProfileBuilder, Thread, ThreadId};
use crate::symbol::{Symbol, Symbolizer};
use crate::trace::{Found, Frame, Stop, Trace};

/// Builds a profile from folded text: one second long, 100 samples per second, all samples at its
/// beginning.
///
/// ```text
///   cat;main;libc.so.6`read;helper_[i];entry_[k];sys_read_[k] 3
///   |   |    |              |          |                      the count; 1 if missing
///   |   |    |              |          code of the kernel
///   |   |    |              inlined into the function before it
///   |   |    in this module; without it, in the process's executable
///   |   root
///   the thread's name, and its process's: rustc`opt cgu.1 for a thread whose name differs from the process's
/// ```
///
/// A name that ends in `_[j]` is JIT-compiled code, one that ends in `_[g]` a guessed frame. A name
/// that contains `::` is Rust, or C++ if it has arguments in parentheses. `[truncated: reason]` in
/// front of the root and `[… 12 frames left out]` mean what [`folded`](crate::sink::folded) means
/// by them.
///
/// # Examples
///
/// ```
/// use ebpf_profiler_core::testing;
///
/// let profile = testing::profile("cat;main;read_[k] 3\ncat;main 1");
/// assert_eq!(profile.count(), 4);
/// assert_eq!(profile.samples().next().unwrap().trace().leaf().to_string(), "read");
/// ```
pub fn profile(folded: &str) -> Profile {
    let mut maker = Maker { builder: ProfileBuilder::new(Duration::from_millis(10)), ..Maker::default() };
    for line in folded.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        maker.line(line);
    }
    maker.finish()
}

/// Assigns addresses to names and builds a profile.
#[derive(Default)]
struct Maker {
    builder: ProfileBuilder,
    processes: HashMap<String, u32>,
    threads: HashMap<(u32, String), u32>,
    modules: Vec<String>,
    names: Names,
}

/// The functions at each address, innermost first; addresses are 16 apart.
#[derive(Default)]
struct Names {
    numbers: HashMap<Vec<Symbol>, usize>,
    functions: Vec<Vec<Symbol>>,
}

/// A frame whose inlined functions are still being added.
struct Draft<'l> {
    ending: &'l str,
    module: &'l str,
    /// The outermost first.
    functions: Vec<&'l str>,
}

impl Maker {
    fn line(&mut self, line: &str) {
        let (stack, count) = match line.rsplit_once(' ').map(|(stack, count)| (stack, count.parse())) {
            Some((stack, Ok(count))) => (stack, count),
            _ => (line, 1),
        };
        let mut parts = stack.split(';');
        let name = parts.next().unwrap_or_default();
        let (process, name) = name.split_once('`').unwrap_or((name, name));
        let thread = self.thread(process, name);
        let trace = self.trace(process, parts);
        for tick in 0..count {
            self.builder.add(thread, &trace, tick * 10_000_000);
        }
    }

    fn thread(&mut self, process: &str, name: &str) -> ThreadId {
        let next = FIRST_PID + self.processes.len() as u32;
        let pid = *self.processes.entry(process.into()).or_insert(next);
        // Kernel threads have names such as kworker/0:1, and no executable.
        let executable = if process.contains('/') { String::new() } else { format!("/usr/bin/{process}") };
        let process = Process { pid, created: 1, executable: executable.into(), ..Process::default() };
        let process = self.builder.process(process);
        let next = FIRST_TID + self.threads.len() as u32;
        let tid = *self.threads.entry((pid, name.into())).or_insert(next);
        self.builder.thread(Thread::new(process, tid, name))
    }

    fn trace<'l>(&mut self, process: &'l str, parts: impl Iterator<Item = &'l str>) -> Trace<'static> {
        let mut drafts: Vec<Draft<'l>> = Vec::new();
        let mut trace = Trace { frames: Cow::default(), stop: Stop::Root, omitted: 0, gap: 0 };
        for part in parts {
            if let Some(stop) = truncated(part) {
                trace.stop = stop;
            } else if let Some(omitted) = left_out(part) {
                (trace.omitted, trace.gap) = (omitted, drafts.len() as u32);
                trace.stop = if trace.stop == Stop::Root { Stop::TooDeep } else { trace.stop };
            } else {
                Draft::add(&mut drafts, part, process);
            }
        }
        trace.frames = drafts.iter().rev().map(|draft| self.frame(draft)).collect();
        if trace.omitted > 0 {
            // Text counts from the root, traces from the leaf.
            trace.gap = trace.frames.len() as u32 - trace.gap;
        }
        trace
    }

    fn frame(&mut self, draft: &Draft<'_>) -> Frame {
        let address = 0x1000 + 16 * self.names.number(draft) as u64;
        let found = if draft.ending == "_[g]" { Found::Guessed } else { Found::Exactly };
        match draft.ending {
            "_[k]" => Frame::Kernel { address: KERNEL + address },
            "_[j]" => Frame::Anonymous { address, found },
            _ => Frame::Native { module: self.module(draft.module), address, found },
        }
    }

    fn module(&mut self, name: &str) -> ModuleId {
        let known = self.modules.iter().position(|module| module == name);
        let number = known.unwrap_or_else(|| {
            self.modules.push(name.into());
            self.modules.len() - 1
        });
        ModuleId(number as u32)
    }

    fn finish(mut self) -> Profile {
        let modules = self.modules;
        let module =
            |id: ModuleId| modules.get(id.0 as usize).map(|name| Module::new(format!("/usr/lib/{name}")));
        let profile = self.builder.finish(UNIX_EPOCH, Duration::from_secs(1), module, &mut self.names);
        profile.name_anonymous(|address| self.names.at(address))
    }
}

impl Names {
    fn number(&mut self, draft: &Draft<'_>) -> usize {
        let symbols: Vec<Symbol> = draft.functions.iter().rev().map(|name| symbol(name)).collect();
        let next = self.functions.len();
        let number = *self.numbers.entry(symbols.clone()).or_insert(next);
        if number == next {
            self.functions.push(symbols);
        }
        number
    }

    fn at(&self, address: u64) -> &[Symbol] {
        let number = address.wrapping_sub(0x1000) / 16;
        self.functions.get(number as usize).map_or(&[], Vec::as_slice)
    }
}

impl Symbolizer for Names {
    fn native(&mut self, _: &Module, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        for (index, &address) in addresses.iter().enumerate() {
            name(index, self.at(address));
        }
    }

    fn kernel(&mut self, addresses: &[u64], name: &mut dyn FnMut(usize, &[Symbol])) {
        for (index, &address) in addresses.iter().enumerate() {
            name(index, self.at(address.wrapping_sub(KERNEL)));
        }
    }
}

impl<'l> Draft<'l> {
    /// Adds a frame, or an inlined function to the last frame.
    fn add(drafts: &mut Vec<Draft<'l>>, part: &'l str, process: &'l str) {
        let ending = ENDINGS.iter().find(|ending| part.ends_with(**ending)).copied().unwrap_or("");
        let name = part.strip_suffix(ending).unwrap_or(part);
        match drafts.last_mut() {
            Some(frame) if ending == "_[i]" => frame.functions.push(name),
            _ => {
                let (module, name) = name.split_once('`').unwrap_or((process, name));
                drafts.push(Draft { ending, module, functions: vec![name] });
            }
        }
    }
}

fn symbol(name: &str) -> Symbol {
    let system_name = match (name.contains("::"), name.ends_with(')')) {
        (true, true) => format!("_ZN{}{name}E", name.len()),
        (true, false) => format!("_RN{name}"),
        _ => String::new(),
    };
    Symbol { function: name.into(), system_name: system_name.into(), ..Symbol::default() }
}

fn truncated(part: &str) -> Option<Stop> {
    if part == "[exec]" {
        return Some(Stop::Exec);
    }
    let reason = part.strip_prefix("[truncated: ")?.strip_suffix(']')?;
    Stop::ALL.iter().copied().find(|stop| stop.text() == reason)
}

fn left_out(part: &str) -> Option<u32> {
    part.strip_prefix("[… ")?.strip_suffix(" frames left out]")?.parse().ok()
}

const ENDINGS: [&str; 4] = ["_[k]", "_[i]", "_[j]", "_[g]"];

const FIRST_PID: u32 = 1_000;
const FIRST_TID: u32 = 5_000;
const KERNEL: u64 = 0xffff_ffff_8100_0000;
