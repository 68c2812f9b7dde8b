//! The `bpf` system call: maps, programs and links.

#![expect(unsafe_code, reason = "a system call that the standard library does not have")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use aya_obj::generated::bpf_insn;

/// Type, sizes and flags of a map.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    pub(super) kind: u32,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
}

/// A map of the kernel.
#[derive(Debug)]
pub(super) struct Map {
    fd: OwnedFd,
    shape: Shape,
}

impl Map {
    /// Creates a map. A map of maps needs `inner`, which has the shape of its elements.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the map.
    pub(super) fn create(name: &str, shape: Shape, inner: Option<&Map>) -> io::Result<Map> {
        let mut request = MapCreate {
            shape: [shape.kind, shape.key_size, shape.value_size, shape.entries, shape.flags],
            inner: inner.map_or(0, |inner| inner.fd.as_raw_fd()),
            numa_node: 0,
            name: short_name(name),
        };
        // SAFETY: the request holds no address.
        let fd = unsafe { open(command::MAP_CREATE, &mut request)? };
        Ok(Map { fd, shape })
    }

    /// Opens the map again.
    ///
    /// # Errors
    ///
    /// Fails if there are too many open files.
    pub(super) fn try_clone(&self) -> io::Result<Map> {
        Ok(Map { fd: self.fd.try_clone()?, shape: self.shape })
    }

    /// Returns its number of entries.
    pub(super) fn entries(&self) -> u32 {
        self.shape.entries
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    ///
    /// Fails if the sizes differ from those of the map, or it is full.
    pub(super) fn set(&self, key: u32, value: &[u8]) -> io::Result<()> {
        const ANY: u64 = 0;
        self.update(key, value, ANY)
    }

    /// Sets the value of `key`, if it has one.
    ///
    /// # Errors
    ///
    /// Fails if the key has no value, or the sizes differ from those of the map.
    pub(super) fn replace(&self, key: u32, value: &[u8]) -> io::Result<()> {
        const EXISTING: u64 = 2;
        self.update(key, value, EXISTING)
    }

    fn update(&self, key: u32, value: &[u8], flags: u64) -> io::Result<()> {
        if (self.shape.key_size, self.shape.value_size as usize) != (4, value.len()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut request = Element { flags, ..Element::new(&self.fd, &key, value.as_ptr()) };
        // SAFETY: key and value have the sizes of the map and outlive the call.
        unsafe { call(command::MAP_UPDATE, &mut request) }.map(drop)
    }

    /// Sets an element of a map of maps.
    ///
    /// # Errors
    ///
    /// Fails if the shape of `map` differs from that of the elements.
    pub(super) fn set_map(&self, key: u32, map: &Map) -> io::Result<()> {
        self.set(key, &map.fd.as_raw_fd().to_ne_bytes())
    }

    /// Sets an element of an array of programs.
    ///
    /// # Errors
    ///
    /// Fails if the program is of another type than the others that were set, or than those that use the array.
    pub(super) fn set_program(&self, key: u32, program: &OwnedFd) -> io::Result<()> {
        self.set(key, &program.as_raw_fd().to_ne_bytes())
    }

    /// Pins the map to `path` in a BPF file system.
    ///
    /// # Errors
    ///
    /// Fails if the path exists or is in another file system.
    pub(super) fn pin(&self, path: &CStr) -> io::Result<()> {
        let mut request = Pin { path: path.as_ptr() as u64, fd: self.fd.as_raw_fd(), flags: 0 };
        // SAFETY: the path ends with a zero byte and outlives the call.
        unsafe { call(command::PIN, &mut request) }.map(drop)
    }

    /// Forbids user space to write to the map.
    ///
    /// # Errors
    ///
    /// Fails if it is mapped for writing.
    pub(super) fn freeze(&self) -> io::Result<()> {
        // SAFETY: the request holds no address.
        unsafe { call(command::MAP_FREEZE, &mut self.fd.as_raw_fd()) }.map(drop)
    }

    /// Removes `key`.
    ///
    /// # Errors
    ///
    /// Fails if the key has no value.
    pub(super) fn remove(&self, key: u32) -> io::Result<()> {
        if self.shape.key_size != 4 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut request = Element::new(&self.fd, &key, std::ptr::null());
        // SAFETY: the key has the size of the map's keys and outlives the call.
        unsafe { call(command::MAP_DELETE, &mut request) }.map(drop)
    }
}

/// A position among the entries of a hash map.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batches {
    next: u32,
    has_begun: bool,
    is_last: bool,
}

impl Batches {
    /// Returns `true` once all entries were read.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }
}

impl Map {
    /// Reads the entries at `batches`, and moves it on. Returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the sizes differ from those of the map, or too many entries have the same hash.
    pub(super) fn read_batch<const K: usize, const V: usize>(
        &self,
        batches: &mut Batches,
        keys: &mut [[u64; K]],
        values: &mut [[u64; V]],
    ) -> io::Result<usize> {
        if (self.shape.key_size as usize, self.shape.value_size as usize) != (K * 8, V * 8) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut next = 0u32;
        let mut request = Batch {
            from: if batches.has_begun { &raw const batches.next as u64 } else { 0 },
            to: &raw mut next as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: keys.len().min(values.len()) as u32,
            map: self.fd.as_raw_fd(),
            flags: [0; 2],
        };
        // SAFETY: keys and values have the sizes of the map and room for the count, the positions those of a hash map's; all
        // outlive the call.
        let read = unsafe { call(command::MAP_LOOKUP_BATCH, &mut request) };
        match read {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => batches.is_last = true,
            Err(error) => return Err(error),
        }
        (batches.next, batches.has_begun) = (next, true);
        Ok(request.count as usize)
    }

    /// Removes a key of whole words.
    ///
    /// # Errors
    ///
    /// Fails if the key has no value, or its size differs from that of the map's keys.
    pub(super) fn remove_words(&self, key: &[u64]) -> io::Result<()> {
        if self.shape.key_size as usize != size_of_val(key) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut request =
            Element { key: key.as_ptr() as u64, ..Element::new(&self.fd, &0, std::ptr::null()) };
        // SAFETY: the key has the size of the map's keys and outlives the call.
        unsafe { call(command::MAP_DELETE, &mut request) }.map(drop)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Loads the type information of an object.
///
/// # Errors
///
/// Fails if the kernel rejects it.
pub(super) fn load_types(types: &[u8]) -> io::Result<OwnedFd> {
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
pub(super) const FUNCTION_ENTRY: u32 = 24;

/// The exit of a function of the kernel (fexit).
pub(super) const FUNCTION_EXIT: u32 = 25;

/// A program to load.
#[derive(Debug)]
pub(super) struct Code<'a> {
    pub(super) name: &'a str,
    pub(super) kind: u32,
    /// The edge of a function of the kernel, and the number of the function's type; 0 for other programs.
    pub(super) function: (u32, u32),
    pub(super) instructions: &'a [bpf_insn],
    pub(super) license: &'a CStr,
    pub(super) types: Option<BorrowedFd<'a>>,
    /// Types of the functions: pairs of instruction and type.
    pub(super) functions: &'a [u8],
}

impl Code<'_> {
    /// Loads the program; the verifier writes into `log` unless that is empty.
    ///
    /// # Errors
    ///
    /// Fails if the verifier rejects it.
    pub(super) fn load(&self, log: &mut [u8]) -> io::Result<OwnedFd> {
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
            // SAFETY: every address is that of memory of the given size, which outlives the call; only the log is
            // written, and it is borrowed mutably.
            match unsafe { open(command::PROGRAM_LOAD, &mut request) } {
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                done => return done,
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }
}

/// Loads a program that returns at once, for the entry of the function of the kernel whose type has number `function`.
///
/// # Errors
///
/// Fails if the kernel allows no programs at the function.
pub(super) fn load_empty_of_function(function: u32) -> io::Result<OwnedFd> {
    const TRACING: u32 = 26;
    let _bitfield_1 = bpf_insn::new_bitfield_1(0, 0);
    let instruction = |code| bpf_insn { code, _bitfield_align_1: [], _bitfield_1, off: 0, imm: 0 };
    let code = Code {
        name: "empty",
        kind: TRACING,
        function: (FUNCTION_ENTRY, function),
        // r0 = 0; exit
        instructions: &[instruction(0xb7), instruction(0x95)],
        license: c"GPL",
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
pub(super) fn attach(program: &OwnedFd, tracepoint: &CStr) -> io::Result<OwnedFd> {
    let mut request =
        TracepointOpen { name: tracepoint.as_ptr() as u64, program: program.as_raw_fd(), reserved: 0 };
    // SAFETY: the name ends with a zero byte and outlives the call.
    unsafe { open(command::TRACEPOINT_OPEN, &mut request) }
}

/// Attaches a program to a perf event as long as the returned link is open. The program reads `cookie`.
///
/// # Errors
///
/// Fails if the program is of another type than the event.
pub(super) fn link(program: &OwnedFd, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    const PERF_EVENT: u32 = 41;
    let (program, target) = (program.as_raw_fd(), event.as_raw_fd());
    let mut request = LinkCreate { program, target, attach_type: PERF_EVENT, flags: 0, details: [cookie, 0] };
    // SAFETY: the request holds no address.
    unsafe { open(command::LINK_CREATE, &mut request) }
}

/// Attaches a program to the function of the kernel for which it was loaded, as long as the returned link is open. The program reads
/// `cookie`.
///
/// # Errors
///
/// Fails if the kernel allows no programs at the function.
pub(super) fn link_to_function(program: &OwnedFd, edge: u32, cookie: u64) -> io::Result<OwnedFd> {
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
pub(super) fn run(program: &OwnedFd, arguments: &[u64]) -> io::Result<u32> {
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
pub(super) struct Runs {
    /// Number of runs; 0 unless the kernel keeps statistics.
    pub(super) count: u64,
    /// Time of these runs.
    pub(super) time: Duration,
    /// Events at which the kernel did not run the program, because another one ran on the CPU.
    pub(super) missed: u64,
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
pub(super) fn runs(program: &OwnedFd) -> io::Result<Runs> {
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

/// Commands of the system call.
mod command {
    pub(super) const MAP_CREATE: libc::c_long = 0;
    pub(super) const MAP_UPDATE: libc::c_long = 2;
    pub(super) const MAP_DELETE: libc::c_long = 3;
    pub(super) const PROGRAM_LOAD: libc::c_long = 5;
    pub(super) const PIN: libc::c_long = 6;
    pub(super) const RUN: libc::c_long = 10;
    pub(super) const INFO: libc::c_long = 15;
    pub(super) const TRACEPOINT_OPEN: libc::c_long = 17;
    pub(super) const TYPES_LOAD: libc::c_long = 18;
    pub(super) const MAP_FREEZE: libc::c_long = 22;
    pub(super) const MAP_LOOKUP_BATCH: libc::c_long = 24;
    pub(super) const LINK_CREATE: libc::c_long = 28;
}

#[repr(C)]
struct MapCreate {
    shape: [u32; 5],
    inner: i32,
    numa_node: u32,
    name: [u8; NAME],
}

#[repr(C)]
struct Element {
    map: i32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Element {
    fn new(map: &OwnedFd, key: &u32, value: *const u8) -> Element {
        let key = std::ptr::from_ref(key) as u64;
        Element { map: map.as_raw_fd(), reserved: 0, key, value: value as u64, flags: 0 }
    }
}

#[repr(C)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: i32,
    flags: [u64; 2],
}

#[repr(C)]
struct Pin {
    path: u64,
    fd: i32,
    flags: u32,
}

#[repr(C)]
struct TypesLoad {
    types: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME],
    interface: u32,
    attach_type: u32,
    types: i32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_size: u32,
    lines: u64,
    line_count: u32,
    attach_to: u32,
}

#[repr(C)]
struct TracepointOpen {
    name: u64,
    program: i32,
    reserved: u32,
}

#[repr(C)]
struct LinkCreate {
    program: i32,
    target: i32,
    attach_type: u32,
    flags: u32,
    /// A perf event: the cookie. A function of the kernel: 0, the cookie.
    details: [u64; 2],
}

#[repr(C)]
#[derive(Default)]
struct Run {
    program: i32,
    answer: u32,
    /// Packet, repetitions and duration; unused for a raw tracepoint.
    packet: [u32; 8],
    arguments_size: u32,
    arguments_out_size: u32,
    arguments: u64,
    arguments_out: u64,
    flags: u32,
    cpu: u32,
}

#[repr(C)]
struct Info {
    fd: i32,
    len: u32,
    info: u64,
}

/// Size of a name in bytes, with the zero at its end.
const NAME: usize = 16;

/// Truncates a name to the kernel's size.
fn short_name(name: &str) -> [u8; NAME] {
    let mut short = [0; NAME];
    for (to, byte) in short[..NAME - 1].iter_mut().zip(name.bytes()) {
        *to = byte;
    }
    short
}

/// Makes a system call that returns a new descriptor.
///
/// # Safety
///
/// As for [`call`]; the command must return a new descriptor.
unsafe fn open<T>(command: libc::c_long, request: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: guaranteed by the caller; no one else owns the new descriptor.
    unsafe { Ok(OwnedFd::from_raw_fd(call(command, request)?)) }
}

/// Makes the system call.
///
/// # Safety
///
/// Every address in the request must be that of memory that the kernel may read or write, of the size in the request.
unsafe fn call<T>(command: libc::c_long, request: &mut T) -> io::Result<i32> {
    // SAFETY: the size is that of the request; the rest is guaranteed by the caller.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(request), size_of::<T>()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i32) }
}
