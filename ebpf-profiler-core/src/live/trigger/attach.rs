//! Attachment of the programs of triggers.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use ebpf_programs::abi::{cookie, off_cpu as abi};

use super::call::Call;
use super::counter::{Counter, HARDWARE, check_hardware};
use super::error::AttachError;
use super::fentry::FunctionProgram;
use super::place::Place;
use super::{Event, Trigger, off_cpu};
use crate::live::error::StartError;
use crate::live::kernel::bpf::{self, Map};
use crate::live::kernel::feature::KernelFeature;
use crate::live::kernel::object::{KernelObject, OuterMap};
use crate::live::kernel::perf;
use crate::live::machine::clock;
use crate::live::machine::cpus;
use crate::sample::KernelFilter;

/// The value of the constant `COOKIE` for programs that take the cookie of their caller.
const COOKIE_OF_CALLER: [u8; 8] = u64::MAX.to_ne_bytes();

/// The triggers of a profiler other than the clock, with their programs.
pub(in super::super) struct Attached {
    /// By name and, if links have no cookies, by the cookie for which they were loaded; else 0.
    programs: HashMap<(&'static str, u64), OwnedFd>,
    has_cookies: bool,
    triggers: Vec<(Trigger, Point)>,
    /// Links and events, which trigger samples as long as they are open.
    links: Vec<OwnedFd>,
    /// Links and events of counters, by CPU. A CPU has them as soon as it is followed.
    counters: Vec<(u32, Vec<OwnedFd>)>,
    is_attached: bool,
    /// Rings by which off-CPU time requests interrupts, by CPU.
    kicks: Option<OuterMap>,
}

/// The point of a trigger in the running kernel.
enum Point {
    /// The embedder attaches its program.
    Elsewhere,
    OffCpu {
        map: Map,
        settings: abi::OffCpu,
    },
    Block {
        map: Map,
        settings: Vec<u8>,
    },
    Probes {
        /// Number of the kernel's interface for these probes.
        kind: u32,
        /// Number of the kind of samples.
        number: u64,
        /// In the order in which they are attached.
        edges: Vec<Edge>,
        /// Places that the kernel rejects are skipped, unless it rejects all of them.
        skips_rejected: bool,
    },
    Functions(Vec<FunctionProgram>),
    /// Tracepoints at the entry and the exit of system calls.
    Calls(Vec<([u64; 2], u64)>),
    Tracepoint {
        id: u64,
        cookie: u64,
    },
    Counter {
        counter: Counter,
        period: u32,
        cookie: u64,
    },
}

/// The tracepoint at the entry of the interrupt that a CPU requests of itself; on arm64 that of all interrupts by other CPUs, of which
/// it is one.
const INTERRUPT: &CStr = if cfg!(target_arch = "aarch64") { c"ipi_entry" } else { c"irq_work_entry" };

/// The tracepoints of off-CPU time, in the order in which their programs are attached.
const SWITCHES: [(&str, &CStr); 4] = [
    ("resumed", INTERRUPT),
    ("woken", c"sched_wakeup"),
    ("waking", c"sched_waking"),
    ("switched", c"sched_switch"),
];

/// The tracepoints of requests of disks: no request is followed whose completion would be missed.
const REQUESTS: [(&str, &CStr); 3] = [
    ("completed", c"block_bio_complete"),
    ("finished", c"block_rq_complete"),
    ("issued", c"block_bio_queue"),
];

/// A program at functions' entries or returns.
struct Edge {
    program: &'static str,
    is_return: bool,
    places: Vec<Place>,
}

impl Edge {
    fn entry(program: &'static str, places: Vec<Place>) -> Edge {
        Edge { program, is_return: false, places }
    }

    fn exit(program: &'static str, places: Vec<Place>) -> Edge {
        Edge { program, is_return: true, places }
    }

    /// Returns the programs of a call. The return first: each entry has one then.
    fn of(call: Call, places: Vec<Place>) -> Vec<Edge> {
        match call {
            call if call.is_time() => {
                vec![Edge::exit("left", places.clone()), Edge::entry("entered", places)]
            }
            Call { is_return, .. } => vec![Edge { program: "probed", is_return, places }],
        }
    }

    /// Returns the programs of memory in use. Functions that free first: each address is followed from its beginning.
    fn of_memory((allocating, freeing): (Vec<Place>, Vec<Place>)) -> Vec<Edge> {
        vec![
            Edge::entry("freeing", freeing),
            Edge::exit("allocated", allocating.clone()),
            Edge::entry("allocating", allocating),
        ]
    }
}

impl Attached {
    /// Loads the programs of `triggers`, whose index is the number of their kind of samples, for the first `cpus` CPUs.
    pub(in super::super) fn load(
        object: &mut KernelObject,
        triggers: &[Trigger],
        cpus: u32,
    ) -> Result<Attached, StartError> {
        let has_kicks = triggers.iter().any(Trigger::is_off_cpu);
        let kicks = has_kicks.then(|| object.outer("KICKS", cpus)).transpose()?;
        let mut points = Vec::new();
        for (event, trigger) in Trigger::numbered(triggers).filter(|(_, trigger)| !trigger.is_cpu()) {
            let point = point(object, trigger, event).map_err(|error| failed(trigger, error))?;
            points.push((trigger.clone(), point));
        }
        let has_cookies = !KernelFeature::LinkCookies.is_missing();
        let programs = programs(object, triggers, &points, has_cookies)?;
        let (links, counters) = (Vec::new(), Vec::new());
        Ok(Attached { programs, has_cookies, triggers: points, links, counters, is_attached: false, kicks })
    }

    /// Attaches all programs. Counters count on the CPUs of the filter alone.
    pub(in super::super) fn attach(&mut self, filter: &KernelFilter) -> Result<(), StartError> {
        for (trigger, point) in &self.triggers {
            let links = self.links_of(point).map_err(|error| failed(trigger, error));
            match links {
                Ok(links) => self.links.extend(links),
                Err(error) => {
                    self.links.clear();
                    return Err(error);
                }
            }
        }
        let online = cpus::online().map_err(StartError::sampling)?;
        let counted = online.into_iter().filter(|&cpu| filter.has_cpu(cpu));
        let counters = counted.map(|cpu| Ok((cpu, self.counters_of(cpu)?)));
        match counters.collect() {
            Ok(counters) => self.counters = counters,
            Err(error) => {
                self.links.clear();
                return Err(error);
            }
        }
        self.is_attached = true;
        Ok(())
    }

    /// Attaches the programs of counters on a CPU that came online, and lets it request interrupts.
    pub(in super::super) fn follow_cpu(&mut self, cpu: u32, filter: &KernelFilter) -> io::Result<()> {
        self.leave_cpu(cpu);
        if let Some(kicks) = &mut self.kicks {
            kicks.fill(cpu + 1)?;
        }
        if self.is_attached && filter.has_cpu(cpu) {
            let counters = self.counters_of(cpu).map_err(|error| io::Error::other(error.to_string()))?;
            self.counters.push((cpu, counters));
        }
        Ok(())
    }

    /// Attaches the programs of counters on one CPU.
    fn counters_of(&self, cpu: u32) -> Result<Vec<OwnedFd>, StartError> {
        let mut links = Vec::new();
        for (trigger, point) in &self.triggers {
            if let Point::Counter { counter: Counter { kind, number, .. }, period, cookie } = point {
                let event = perf::counter(*kind, *number, *period, cpu);
                let counted = event.and_then(|event| self.event(event, "counted", *cookie));
                links.push(counted.map_err(|error| failed(trigger, error))?);
            }
        }
        Ok(links)
    }

    /// Closes the counters of a CPU that went offline: their events end there, even if it comes back.
    pub(in super::super) fn leave_cpu(&mut self, cpu: u32) {
        self.counters.retain(|&(other, _)| other != cpu);
    }

    /// Detaches all programs.
    pub(in super::super) fn detach(&mut self) {
        // The last first: no thread is switched off without being followed.
        self.counters.clear();
        self.is_attached = false;
        while self.links.pop().is_some() {}
    }

    /// Returns the programs.
    pub(in super::super) fn programs(&self) -> impl Iterator<Item = &OwnedFd> {
        let of_functions = self.triggers.iter().flat_map(|(_, point)| match point {
            Point::Functions(programs) => programs.as_slice(),
            _ => &[],
        });
        self.programs.values().chain(of_functions.map(|function| &function.program))
    }

    fn program(&self, name: &'static str, cookie: u64) -> io::Result<&OwnedFd> {
        let cookie = if self.has_cookies { 0 } else { cookie };
        self.programs.get(&(name, cookie)).ok_or(io::Error::from(io::ErrorKind::NotFound))
    }

    /// Attaches the programs of a point.
    fn links_of(&self, point: &Point) -> io::Result<Vec<OwnedFd>> {
        match point {
            Point::Elsewhere | Point::Counter { .. } => Ok(Vec::new()),
            Point::OffCpu { map, settings } => {
                let start = clock::monotonic();
                map.set(0, &off_cpu::bytes(&abi::OffCpu { start, ..*settings }))?;
                self.tracepoints(&SWITCHES)
            }
            Point::Block { map, settings } => {
                map.set(0, settings)?;
                self.tracepoints(&REQUESTS)
            }
            Point::Probes { kind, number, edges, skips_rejected } => {
                self.probes(*kind, *number, edges, *skips_rejected)
            }
            Point::Functions(programs) => functions(programs),
            Point::Calls(calls) => self.calls(calls),
            Point::Tracepoint { id, cookie } => {
                Ok(vec![self.event(perf::tracepoint(*id)?, "traced", *cookie)?])
            }
        }
    }

    /// Attaches the loaded ones of these programs to their raw tracepoints.
    fn tracepoints(&self, points: &[(&'static str, &CStr)]) -> io::Result<Vec<OwnedFd>> {
        let loaded = points.iter().filter(|&&(name, _)| self.programs.contains_key(&(name, 0)));
        loaded.map(|&(name, tracepoint)| bpf::attach(self.program(name, 0)?, tracepoint)).collect()
    }

    /// Attaches a program to an event. Returns what keeps it there: the link, which keeps the event, or the event itself.
    fn event(&self, event: OwnedFd, program: &'static str, cookie: u64) -> io::Result<OwnedFd> {
        let program = self.program(program, cookie)?;
        if self.has_cookies {
            return bpf::link(program, event.as_fd(), cookie);
        }
        perf::set_program(&event, program.as_fd())?;
        Ok(event)
    }

    fn calls(&self, calls: &[([u64; 2], u64)]) -> io::Result<Vec<OwnedFd>> {
        let mut links = Vec::new();
        for &([enter, exit], cookie) in calls {
            for (name, id) in [("answered", exit), ("called", enter)] {
                links.push(self.event(perf::tracepoint(id)?, name, cookie)?);
            }
        }
        Ok(links)
    }

    fn probes(
        &self,
        kind: u32,
        number: u64,
        edges: &[Edge],
        skips_rejected: bool,
    ) -> io::Result<Vec<OwnedFd>> {
        let mut links = Vec::new();
        for Edge { program, is_return, places } in edges {
            for place in places {
                let event = perf::probe(kind, &place.target, place.offset, place.semaphore, *is_return);
                let event = match event {
                    Ok(event) => event,
                    Err(_) if skips_rejected => continue,
                    Err(error) => return Err(place.failed(error)),
                };
                links.push(self.event(event, program, number | place.cookie)?);
            }
        }
        if links.is_empty() {
            let count: usize = edges.iter().map(|edge| edge.places.len()).sum();
            return Err(io::Error::other(format!("none of {count} functions can be probed")));
        }
        Ok(links)
    }
}

impl Point {
    /// Returns its programs at perf events, each with its cookies.
    fn cookies(&self) -> Vec<(&'static str, u64)> {
        match self {
            Point::Elsewhere | Point::OffCpu { .. } | Point::Block { .. } | Point::Functions(_) => Vec::new(),
            Point::Probes { number, edges, .. } => {
                let places = edges.iter().flat_map(|edge| edge.places.iter().map(move |place| (edge, place)));
                places.map(|(edge, place)| (edge.program, number | place.cookie)).collect()
            }
            Point::Calls(calls) => {
                calls.iter().flat_map(|&(_, cookie)| [("answered", cookie), ("called", cookie)]).collect()
            }
            Point::Tracepoint { cookie, .. } => vec![("traced", *cookie)],
            Point::Counter { cookie, .. } => vec![("counted", *cookie)],
        }
    }
}

/// Loads the programs of triggers. If links have no cookies, those that need one are loaded for each.
fn programs(
    object: &mut KernelObject,
    triggers: &[Trigger],
    points: &[(Trigger, Point)],
    has_cookies: bool,
) -> Result<HashMap<(&'static str, u64), OwnedFd>, StartError> {
    let mut programs = HashMap::new();
    let mut cookies: Vec<_> = points.iter().flat_map(|(_, point)| point.cookies()).collect();
    cookies.sort_unstable();
    cookies.dedup();
    let is_loaded_once =
        |name: &str| has_cookies || cookies.iter().all(|&(with_cookie, _)| with_cookie != name);
    for &name in triggers.iter().filter(|it| !it.is_cpu()).flat_map(Trigger::programs) {
        if is_loaded_once(name) && !programs.contains_key(&(name, 0)) {
            programs.insert((name, 0), object.program(name)?);
        }
    }
    if !has_cookies && !cookies.is_empty() {
        for &(name, cookie) in &cookies {
            object.set_constant("COOKIE", &cookie.to_ne_bytes())?;
            programs.insert((name, cookie), object.program(name)?);
        }
        object.set_constant("COOKIE", &COOKIE_OF_CALLER)?;
    }
    Ok(programs)
}

/// Attaches programs to functions of the kernel.
fn functions(programs: &[FunctionProgram]) -> io::Result<Vec<OwnedFd>> {
    let mut links = Vec::new();
    for program in programs {
        match program.attach() {
            Ok(link) => links.push(link),
            Err(_) if program.is_optional => {}
            Err(error) => return Err(error),
        }
    }
    if links.is_empty() {
        return Err(io::Error::other(format!("the kernel rejects all {} functions", programs.len())));
    }
    Ok(links)
}

/// Looks up the point of a trigger.
fn point(object: &mut KernelObject, trigger: &Trigger, event: u16) -> Result<Point, AttachError> {
    let number = u64::from(event);
    match &trigger.event {
        Event::Cpu => Err(AttachError::invalid("the clock is no probe")),
        Event::Own { .. } => Ok(Point::Elsewhere),
        Event::OffCpu(off_cpu) => {
            let only_one = |_| AttachError::invalid("there can be one off-CPU trigger only");
            let map = object.map("OFF_CPU").map_err(only_one)?;
            Ok(Point::OffCpu { map, settings: off_cpu.settings(event)? })
        }
        Event::Block(latency) => {
            let map = object.map("BLOCK").map_err(|error| AttachError::unsupported(error.to_string()))?;
            Ok(Point::Block { map, settings: latency.settings(event)? })
        }
        Event::Uprobe(probe) => probes("uprobe", number, Edge::of(probe.call, probe.places()?), false),
        Event::Kprobe(probe) => {
            let (places, skips_rejected) = probe.places()?;
            probes("kprobe", number, Edge::of(probe.call, places), skips_rejected)
        }
        Event::Fentry(function) => function.load(object, number).map(Point::Functions),
        Event::Malloc(malloc) if malloc.is_live => {
            probes("uprobe", number, Edge::of_memory(malloc.places_in_use()?), false)
        }
        Event::Malloc(malloc) => probes("uprobe", number, Edge::of(Call::ENTRY, malloc.places()?), false),
        Event::Usdt(probe) => probes("uprobe", number, Edge::of(Call::ENTRY, probe.places()?), false),
        Event::Tracepoint(tracepoint) => {
            let (id, cookie) = tracepoint.location()?;
            Ok(Point::Tracepoint { id, cookie: number | cookie })
        }
        Event::Futex(futex) => {
            let calls = futex.location()?;
            Ok(Point::Calls(calls.into_iter().map(|(ids, cookie)| (ids, number | cookie)).collect()))
        }
        Event::Counter { counter, period } => {
            if counter.kind == HARDWARE {
                check_hardware()?;
            }
            let cookie = number | u64::from(*period) << cookie::VALUE_SHIFT;
            Ok(Point::Counter { counter: *counter, period: *period, cookie })
        }
    }
}

/// Returns the point of probes of a sort, `uprobe` or `kprobe`.
fn probes(sort: &str, number: u64, edges: Vec<Edge>, skips_rejected: bool) -> Result<Point, AttachError> {
    Ok(Point::Probes { kind: number_of(sort)?, number, edges, skips_rejected })
}

/// Returns the number of the kernel's interface for probes of a sort.
pub(super) fn number_of(sort: &str) -> Result<u32, AttachError> {
    let number = fs::read_to_string(format!("/sys/bus/event_source/devices/{sort}/type")).ok();
    number.and_then(|number| number.trim().parse().ok()).ok_or_else(|| {
        let option = sort.to_uppercase();
        AttachError::unsupported(format!(
            "this kernel has no {sort}s; use one that is built with CONFIG_{option}_EVENTS=y"
        ))
    })
}

fn failed(trigger: &Trigger, error: impl Into<AttachError>) -> StartError {
    StartError::Trigger { trigger: Box::new(trigger.clone()), error: error.into() }
}
