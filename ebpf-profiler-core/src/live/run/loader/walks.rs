//! The programs that walk stacks, loaded again when a runtime is found.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use ebpf_programs::abi::interpreter::walker;

use super::{WALKERS, failed_to_set};
use crate::live::error::StartError;
use crate::live::kernel::bpf::{self, Map, Runs};
use crate::live::kernel::object::KernelObject;
use crate::live::kernel::tables::NeededWalkers;
use crate::live::kernel::waker::Waker;
use crate::live::machine::priority;
use crate::live::machine::reservation::{self, Part, Reservation, Reserved};
use crate::live::trigger::{Trigger, Walk};

/// The walker of lists, as a set.
const LISTS: u32 = 1 << walker::LIST;

/// The walkers that are written for this architecture, as a set. Those for frames on the native stack know the registers of x86_64 only.
pub(super) const WRITTEN_WALKERS: u32 = if cfg!(target_arch = "aarch64") { LISTS } else { u32::MAX };

/// Returns the name of the clock's program for a set of walkers. The kernel loads those without
/// walkers, and with that of lists alone, in half of the time.
fn sampler(walkers: u32) -> &'static str {
    // All of them can copy labels.
    match walkers & !(1 << walker::LABELS) {
        0 => "sample_native",
        LISTS => "sample_lists",
        _ => "sample",
    }
}

/// The programs that walk stacks: the clock's, and those that programs at other events call. These
/// have the walkers of all plugged-in languages. The clock's has those of the runtimes that were
/// found so far, so that others cost nothing; when one is found, it is loaded again.
pub(in crate::live) struct Walks {
    /// The object, unless a thread loads a program of it.
    object: Option<KernelObject>,
    loading: Option<Loading>,
    /// The clock's program; `None` without CPU time.
    sampler: Option<OwnedFd>,
    called: Vec<Called>,
    /// Walkers of the clock's program, a bit for each.
    has: u32,
    /// Walkers that the registry has requested.
    needed: Arc<NeededWalkers>,
    /// Runs of the clock's former programs.
    former: Runs,
    /// For threads that load programs.
    reservation: Option<Reservation>,
}

/// A thread that loads the clock's program, so that samples are drained meanwhile.
struct Loading {
    thread: JoinHandle<(KernelObject, Result<OwnedFd, StartError>)>,
    /// Walkers of the program.
    walkers: u32,
}

/// A program that others call.
struct Called {
    walk: Walk,
    map: Map,
    program: OwnedFd,
}

impl Walks {
    /// Loads the programs. Of the walkers of plugged-in languages the clock's has that of lists at
    /// once: it costs next to nothing, and the first frames of a process then don't wait for
    /// it.
    pub(super) fn load(
        mut object: KernelObject,
        triggers: &[Trigger],
        plugged_in: u32,
        needed: Arc<NeededWalkers>,
    ) -> Result<Walks, StartError> {
        let mut walks: Vec<Walk> = triggers.iter().flat_map(Trigger::walks).collect();
        walks.sort_unstable();
        walks.dedup();
        let load = |object: &KernelObject| {
            let load = |&walk: &Walk| {
                Ok(Called { map: object.map(walk.map)?, program: object.program(walk.program)?, walk })
            };
            walks.iter().map(load).collect::<Result<Vec<_>, StartError>>()
        };
        let mut called = load(&object);
        let has = plugged_in & LISTS;
        object.set_constant(WALKERS, &has.to_ne_bytes())?;
        if called.as_ref().is_err_and(StartError::is_of_large_program) {
            // A verifier with lower limits: copies of the stacks that need the other walkers are sent.
            called = load(&object);
        }
        let called = called?;
        let has_clock = triggers.iter().any(Trigger::is_cpu);
        let sampler = has_clock.then(|| object.program(sampler(has))).transpose()?;
        let object = Some(object);
        let (loading, former, reservation) = (None, Runs::default(), None);
        let walks = Walks { object, loading, sampler, called, has, needed, former, reservation };
        walks.set_called(|_| true).map_err(failed_to_set)?;
        Ok(walks)
    }

    /// Returns the clock's program.
    pub(in crate::live) fn sampler(&self) -> Option<&OwnedFd> {
        self.sampler.as_ref()
    }

    /// Lets threads that load programs take part in a reservation.
    pub(in crate::live) fn set_reservation(&mut self, reservation: Option<Reservation>) {
        self.reservation = reservation;
    }

    /// Wakes by this when walkers are requested.
    pub(in crate::live) fn set_waker(&self, waker: Waker) {
        self.needed.set_waker(waker);
    }

    /// Loads the clock's program again if walkers were requested that it doesn't have, in a thread,
    /// or at once if `waits`. Returns `true` if there is a new program. A running profiler keeps the
    /// former one if the kernel rejects the new one.
    pub(in crate::live) fn renew(&mut self, waits: bool) -> Result<bool, StartError> {
        if self.loading.is_none() {
            self.begin_to_load(waits)?;
        }
        let Some(loading) = self.loading.take_if(|loading| waits || loading.thread.is_finished()) else {
            return Ok(false);
        };
        let failed = |_| StartError::System {
            what: "load the sampling program",
            error: io::Error::other("the thread that loads it panicked"),
        };
        let (object, program) = loading.thread.join().map_err(failed)?;
        self.object = Some(object);
        self.has = loading.walkers;
        match program {
            Ok(program) => {
                self.former = self.runs();
                self.sampler = Some(program);
                Ok(true)
            }
            // A verifier with lower limits: the former program sends copies of the stacks that need
            // the other walkers.
            Err(error) if !waits || error.is_of_large_program() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Starts a thread that loads the clock's program with the requested walkers, if it lacks any.
    /// It runs after the threads that take samples, unless somebody `waits`.
    fn begin_to_load(&mut self, waits: bool) -> Result<(), StartError> {
        let walkers = self.needed.bits() & WRITTEN_WALKERS | self.has;
        if walkers == self.has || self.sampler.is_none() {
            self.has = walkers;
            return Ok(());
        }
        let Some(mut object) = self.object.take() else { return Ok(()) };
        let load = move |_: Option<&Reserved>| {
            if !waits {
                priority::reset();
            }
            let set = object.set_constant(WALKERS, &walkers.to_ne_bytes());
            let program = set.and_then(|()| object.program(sampler(walkers)));
            (object, program)
        };
        let thread = std::thread::Builder::new().name("profiler-load".to_owned());
        let thread = reservation::spawn(self.reservation.as_ref(), Part::Shared, thread, load);
        let failed = |error| StartError::System { what: "start a thread that loads a program", error };
        self.loading = Some(Loading { thread: thread.map_err(failed)?, walkers });
        Ok(())
    }

    /// Puts programs where others call them.
    fn set_called(&self, is_wanted: impl Fn(&Walk) -> bool) -> io::Result<()> {
        let mut wanted = self.called.iter().filter(|called| is_wanted(&called.walk));
        wanted.try_for_each(|called| called.map.set_program(called.walk.index, &called.program))
    }

    /// Accepts events of own programs.
    pub(in crate::live) fn accept_own(&self) -> io::Result<()> {
        self.set_called(Walk::is_own)
    }

    /// Rejects events of own programs.
    pub(in crate::live) fn reject_own(&self) {
        for called in self.called.iter().filter(|called| called.walk.is_own()) {
            // It may be gone already.
            let _ = called.map.remove(called.walk.index);
        }
    }

    /// Returns the runs of the clock's program. Those of programs that are called count as their
    /// callers'.
    pub(in crate::live) fn runs(&self) -> Runs {
        let current = self.sampler.as_ref().and_then(|program| bpf::runs(program).ok());
        [self.former].into_iter().chain(current).sum()
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::live::kernel::memlock;
    use crate::live::run::loader::older::{self, Older};

    #[test]
    #[ignore = "loads programs: needs root"]
    fn the_kernel_accepts_the_walker_of_dotnet() {
        test_needs::root!();
        memlock::raise();
        let older = Older::of_this_kernel();
        let walkers = (LISTS | 1 << walker::DOTNET).to_ne_bytes();
        let constants = older.as_ref().map(Older::constants).unwrap_or_default();
        let constants = [&[(WALKERS, &walkers[..])], &constants[..]].concat();
        let object =
            KernelObject::new(older::object(older.as_ref()), &["sample"], &["KICKS"], &[], &constants)
                .unwrap();
        let error = object.program("sample").err().map(|error| error.to_string());
        println!("older {}: {error:?}", older.is_some());
        // The verifiers of older kernels may follow fewer instructions.
        assert!(older.is_some() || error.is_none());
    }
}
