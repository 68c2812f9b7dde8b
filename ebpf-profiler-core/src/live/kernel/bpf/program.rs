//! Programs, their types and links.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use aya_obj::generated::bpf_insn;

use super::request::{
    Info, LinkCreate, ProgramLoad, Run, TracepointOpen, TypesLoad, call, command, open, short_name,
};

/// Loads the type information of an object.
///
/// # Errors
///
/// Fails if the kernel rejects it.
pub(in crate::live) fn load_types(types: &[u8]) -> io::Result<OwnedFd> {
    let mut request = TypesLoad {
        types: types.as_ptr() as u64,
        log: 0,
        size: types.len() as u32,
        log_size: 0,
        log_level: 0,
        reserved: 0,
    };
    // SAFETY: the types have the given size and outlive the call.
    unsafe { open(command::TYPES_LOAD, &mut request) }
}

/// The entry of a function of the kernel (fentry).
pub(in crate::live) const FUNCTION_ENTRY: u32 = 24;

/// The exit of a function of the kernel (fexit).
pub(in crate::live) const FUNCTION_EXIT: u32 = 25;

/// A program to load.
#[derive(Debug)]
pub(in crate::live) struct Code<'a> {
    pub(in crate::live) name: &'a str,
    pub(in crate::live) kind: u32,
    /// The edge of a function of the kernel, and the number of the function's type; 0 for other
    /// programs.
    pub(in crate::live) function: (u32, u32),
    pub(in crate::live) instructions: &'a [bpf_insn],
    pub(in crate::live) license: &'a CStr,
    pub(in crate::live) types: Option<BorrowedFd<'a>>,
    /// Types of the functions: pairs of instruction and type.
    pub(in crate::live) functions: &'a [u8],
}

impl Code<'_> {
    /// Loads the program; the verifier writes into `log` unless that is empty.
    ///
    /// # Errors
    ///
    /// Fails if the verifier rejects it.
    pub(in crate::live) fn load(&self, log: &mut [u8]) -> io::Result<OwnedFd> {
        /// An instruction and a type, four bytes each.
        const FUNCTION: u32 = 8;
        let mut request = ProgramLoad {
            kind: self.kind,
            count: self.instructions.len() as u32,
            instructions: self.instructions.as_ptr() as u64,
            license: self.license.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            name: short_name(self.name),
            attach_type: self.function.0,
            attach_to: self.function.1,
            types: self.types.map_or(0, |types| types.as_raw_fd()),
            function_size: FUNCTION,
            functions: self.functions.as_ptr() as u64,
            function_count: self.functions.len() as u32 / FUNCTION,
            ..ProgramLoad::default()
        };
        // A signal interrupts the verifier.
        for _ in 0..5 {
            // SAFETY: every address is that of memory of the given size, which outlives the call; only the
            // log is written, and it is borrowed mutably.
            match unsafe { open(command::PROGRAM_LOAD, &mut request) } {
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                done => return done,
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }
}

/// Loads a program that returns at once, for the entry of the function of the kernel whose type has
/// number `function`.
///
/// # Errors
///
/// Fails if the kernel allows no programs at the function.
pub(in crate::live) fn load_empty_of_function(function: u32) -> io::Result<OwnedFd> {
    const TRACING: u32 = 26;
    let _bitfield_1 = bpf_insn::new_bitfield_1(0, 0);
    let instruction = |code| bpf_insn { code, _bitfield_align_1: [], _bitfield_1, off: 0, imm: 0 };
    let code = Code {
        name: "empty",
        kind: TRACING,
        function: (FUNCTION_ENTRY, function),
        // r0 = 0; exit
        instructions: &[instruction(0xb7), instruction(0x95)],
        license: c"Dual MIT/GPL",
        types: None,
        functions: &[],
    };
    code.load(&mut [])
}

/// Attaches a program to a raw tracepoint as long as the returned link is open.
///
/// # Errors
///
/// Fails if there is no such tracepoint.
pub(in crate::live) fn attach(program: &OwnedFd, tracepoint: &CStr) -> io::Result<OwnedFd> {
    let mut request =
        TracepointOpen { name: tracepoint.as_ptr() as u64, program: program.as_raw_fd(), reserved: 0 };
    // SAFETY: the name ends with a zero byte and outlives the call.
    unsafe { open(command::TRACEPOINT_OPEN, &mut request) }
}

/// Attaches a program to a perf event as long as the returned link is open. The program reads
/// `cookie`.
///
/// # Errors
///
/// Fails if the program is of another type than the event.
pub(in crate::live) fn link(program: &OwnedFd, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    const PERF_EVENT: u32 = 41;
    let (program, target) = (program.as_raw_fd(), event.as_raw_fd());
    let mut request = LinkCreate { program, target, attach_type: PERF_EVENT, flags: 0, details: [cookie, 0] };
    // SAFETY: the request holds no address.
    unsafe { open(command::LINK_CREATE, &mut request) }
}

/// Attaches a program to the function of the kernel for which it was loaded, as long as the
/// returned link is open. The program reads `cookie`.
///
/// # Errors
///
/// Fails if the kernel allows no programs at the function.
pub(in crate::live) fn link_to_function(program: &OwnedFd, edge: u32, cookie: u64) -> io::Result<OwnedFd> {
    let (program, details) = (program.as_raw_fd(), [0, cookie]);
    let mut request = LinkCreate { program, target: 0, attach_type: edge, flags: 0, details };
    // SAFETY: the request holds no address.
    unsafe { open(command::LINK_CREATE, &mut request) }
}

/// Runs a raw-tracepoint program once with these arguments and returns its result.
///
/// # Errors
///
/// Fails if it can't be run, or reads more arguments.
pub(in crate::live) fn run(program: &OwnedFd, arguments: &[u64]) -> io::Result<u32> {
    let mut request = Run {
        program: program.as_raw_fd(),
        arguments_size: size_of_val(arguments) as u32,
        arguments: arguments.as_ptr() as u64,
        ..Run::default()
    };
    // SAFETY: the arguments have the given size and outlive the call.
    unsafe { call(command::RUN, &mut request)? };
    Ok(request.answer)
}

/// Runs of programs.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::live) struct Runs {
    /// Number of runs; 0 unless the kernel keeps statistics.
    pub(in crate::live) count: u64,
    /// Time of these runs.
    pub(in crate::live) time: Duration,
    /// Events at which the kernel did not run the program, because another one ran on the CPU.
    pub(in crate::live) missed: u64,
}

impl std::iter::Sum for Runs {
    fn sum<I: Iterator<Item = Runs>>(all: I) -> Runs {
        all.fold(Runs::default(), |sum, runs| Runs {
            count: sum.count + runs.count,
            time: sum.time + runs.time,
            missed: sum.missed + runs.missed,
        })
    }
}

/// Returns the runs of a program.
///
/// # Errors
///
/// Fails if the kernel rejects the query.
pub(in crate::live) fn runs(program: &OwnedFd) -> io::Result<Runs> {
    // `struct bpf_prog_info` up to these three words.
    const TIME: usize = 24;
    const COUNT: usize = 25;
    const MISSED: usize = 26;
    let mut info = [0u64; MISSED + 1];
    let mut request =
        Info { fd: program.as_raw_fd(), len: size_of_val(&info) as u32, info: info.as_mut_ptr() as u64 };
    // SAFETY: the kernel writes at most the given number of bytes, which outlive the call.
    unsafe { call(command::INFO, &mut request)? };
    Ok(Runs { count: info[COUNT], time: Duration::from_nanos(info[TIME]), missed: info[MISSED] })
}
