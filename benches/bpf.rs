//! The kernel's stack walk as a program of ten instructions, a program without work, and the
//! kernel's statistics of programs.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::thread::sleep;
use std::time::Duration;

/// Makes the kernel count the runs and run times of all programs, until it is dropped.
#[derive(Debug)]
#[must_use = "statistics end when this is dropped"]
pub struct Statistics {
    _held: OwnedFd,
}

impl Statistics {
    /// Starts counting.
    ///
    /// # Errors
    ///
    /// Fails without `CAP_SYS_ADMIN`.
    pub fn enable() -> io::Result<Statistics> {
        const ENABLE_STATS: libc::c_long = 32;
        const RUN_TIME: u32 = 0;
        bpf(ENABLE_STATS, &[u64::from(RUN_TIME)]).map(|held| Statistics { _held: held })
    }
}

/// `bpf_get_stackid`, first for the kernel's stack and then for the user's: the minimum of a
/// profiler that uses frame pointers.
#[derive(Debug)]
pub struct StackIds {
    stacks: OwnedFd,
    program: OwnedFd,
    depth: u32,
}

impl StackIds {
    /// Loads the program for stacks of up to `depth` frames.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses, for example if `kernel.perf_event_max_stack` is less than
    /// `depth`.
    pub fn load(depth: u32) -> io::Result<StackIds> {
        const MAP_CREATE: libc::c_long = 0;
        const STACK_TRACE: u32 = 7;
        const ENTRIES: u32 = 16384;
        let stacks = bpf(MAP_CREATE, &[pair(STACK_TRACE, 4), pair(depth * 8, ENTRIES), 0])?;
        let program = load(PERF_EVENT, &code(stacks.as_raw_fd()))?;
        Ok(StackIds { stacks, program, depth })
    }

    /// Returns the program's descriptor.
    pub fn program(&self) -> RawFd {
        self.program.as_raw_fd()
    }

    /// Returns the number of frames of the deepest stack so far.
    pub fn deepest(&self) -> usize {
        const LOOKUP: libc::c_long = 1;
        const NEXT_KEY: libc::c_long = 4;
        let map = self.stacks.as_raw_fd() as u64;
        let (mut key, mut next, mut deepest) = (u32::MAX, 0u32, 0);
        let mut stack = vec![0u64; self.depth as usize];
        while bpf_call(NEXT_KEY, &[map, &raw const key as u64, &raw mut next as u64]).is_ok() {
            key = next;
            if bpf_call(LOOKUP, &[map, &raw const key as u64, stack.as_mut_ptr() as u64, 0]).is_ok() {
                deepest = deepest.max(stack.iter().take_while(|&&address| address != 0).count());
            }
        }
        deepest
    }
}

/// A program without work, at each switch between threads, until it is dropped: the time that
/// statistics give to a run of it is the time that they take themselves.
#[derive(Debug)]
pub struct AtSwitches {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl AtSwitches {
    /// Loads and attaches the program.
    ///
    /// # Errors
    ///
    /// Fails without `CAP_BPF` and `CAP_PERFMON`.
    pub fn start() -> io::Result<AtSwitches> {
        const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
        const RAW_TRACEPOINT: u32 = 17;
        let code = [instruction(0xb7, 0x00, 0), instruction(0x95, 0x00, 0)]; // r0 = 0, exit
        let program = load(RAW_TRACEPOINT, &code)?;
        let tracepoint = c"sched_switch";
        let link =
            bpf(RAW_TRACEPOINT_OPEN, &[tracepoint.as_ptr() as u64, pair(program.as_raw_fd() as u32, 0), 0])?;
        Ok(AtSwitches { _program: program, _link: link })
    }
}

/// A program that is run by a clock for each of some threads, until it is dropped.
#[derive(Debug)]
pub struct Ticking {
    program: RawFd,
    _clocks: Vec<OwnedFd>,
}

impl Ticking {
    /// Runs `program` `hertz` times per second of CPU time of each of `threads`. Returns after a
    /// warm-up: tables are complete, and caches are warm.
    ///
    /// # Errors
    ///
    /// Fails if a thread has exited.
    pub fn start(program: RawFd, threads: &[u32], hertz: u32) -> io::Result<Ticking> {
        const WARM: u64 = 50;
        let clocks = threads.iter().map(|&tid| watch(program, tid, hertz)).collect::<io::Result<_>>()?;
        while runs(program)?.0 < WARM {
            sleep(Duration::from_millis(100));
        }
        Ok(Ticking { program, _clocks: clocks })
    }

    /// Returns the nanoseconds per run during the next `window`.
    ///
    /// # Errors
    ///
    /// Fails without `/proc`.
    pub fn time_of_run(&self, window: Duration) -> io::Result<f64> {
        Ok(self.runs_and_time(window)?.1)
    }

    /// Returns the number of runs during the next `window`, and the nanoseconds of each.
    ///
    /// # Errors
    ///
    /// Fails without `/proc`.
    pub fn runs_and_time(&self, window: Duration) -> io::Result<(u64, f64)> {
        let before = runs(self.program)?;
        sleep(window);
        let after = runs(self.program)?;
        let (count, time) = (after.0 - before.0, (after.1 - before.1).as_nanos() as f64);
        Ok((count, time / count.max(1) as f64))
    }
}

/// Returns the sampling program that this process has loaded.
///
/// # Errors
///
/// Fails if there is none.
pub fn sampler() -> io::Result<RawFd> {
    for fd in descriptors()? {
        if fd_field(fd, "prog_type").is_ok_and(|kind| kind == u64::from(PERF_EVENT)) {
            return Ok(fd);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Returns the id of a program that another process has loaded, by its type (`BPF_PROG_TYPE_`…) and
/// its name, of which the kernel keeps 15 bytes.
///
/// # Errors
///
/// Fails if there is none.
pub fn loaded_program(pid: u32, kind: u32, name: &str) -> io::Result<u32> {
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        let info = fs::read_to_string(entry?.path()).unwrap_or_default();
        if field(&info, "prog_type") == Some(u64::from(kind))
            && let Some(id) = field(&info, "prog_id")
            // Its process may just have ended.
            && let Ok(program) = program_of(id as u32)
            && name.starts_with(&name_of(program.as_raw_fd())?)
        {
            return Ok(id as u32);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Returns the name of a program.
fn name_of(program: RawFd) -> io::Result<String> {
    const GET_INFO: libc::c_long = 15;
    const NAME: std::ops::Range<usize> = 64..80;
    let mut info = [0u8; NAME.end];
    bpf_call(GET_INFO, &[pair(program as u32, NAME.end as u32), info.as_mut_ptr() as u64])?;
    let name = info[NAME].iter().take_while(|&&byte| byte != 0);
    Ok(name.map(|&byte| char::from(byte)).collect())
}

/// Returns the open descriptors of this process.
///
/// # Errors
///
/// Fails without `/proc`.
pub fn descriptors() -> io::Result<Vec<RawFd>> {
    let all = fs::read_dir("/proc/self/fd")?;
    Ok(all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// Returns a number of a descriptor in `/proc/self/fdinfo`.
///
/// # Errors
///
/// Fails if there is no such number.
pub fn fd_field(fd: i32, name: &str) -> io::Result<u64> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
    field(&info, name).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn field(info: &str, name: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line?.trim().parse().ok()
}

/// Runs `program` `hertz` times per second of CPU time of thread `tid`, until the result is
/// dropped.
fn watch(program: RawFd, tid: u32, hertz: u32) -> io::Result<OwnedFd> {
    const SET_BPF: libc::c_ulong = 0x4004_2408;
    let clock = clock(tid, hertz)?;
    // SAFETY: the request takes the number of a program.
    check(unsafe { libc::ioctl(clock.as_raw_fd(), SET_BPF as _, program) }.into())?;
    Ok(clock)
}

/// Returns the number of runs of `program` and their time.
///
/// # Errors
///
/// Fails without `/proc`.
pub fn runs(program: RawFd) -> io::Result<(u64, Duration)> {
    let field = |name| fd_field(program, name);
    Ok((field("run_cnt")?, Duration::from_nanos(field("run_time_ns")?)))
}

/// Returns the run time of all programs of the system.
///
/// # Errors
///
/// Fails without `CAP_SYS_ADMIN`.
pub fn time_of_all() -> io::Result<Duration> {
    const NEXT_ID: libc::c_long = 11;
    let (mut attributes, mut time) = ([0, 0], Duration::ZERO);
    while bpf_call_mut(NEXT_ID, &mut attributes).is_ok() {
        // The id is followed by the next one.
        let next =
            if cfg!(target_endian = "little") { attributes[0] >> 32 } else { attributes[0] & 0xffff_ffff };
        // It may be unloaded by now.
        if let Ok(program) = program_of(next as u32) {
            time += runs(program.as_raw_fd())?.1;
        }
        attributes = [pair(next as u32, 0), 0];
    }
    Ok(time)
}

/// Opens a program by its id.
///
/// # Errors
///
/// Fails if it was unloaded.
pub fn program_of(id: u32) -> io::Result<OwnedFd> {
    const FD_BY_ID: libc::c_long = 13;
    bpf(FD_BY_ID, &[pair(id, 0), 0])
}

/// Type of programs for perf events.
pub const PERF_EVENT: u32 = 7;

/// Type of programs for probes in functions.
pub const KPROBE: u32 = 2;

/// Loads a program of a type.
fn load(kind: u32, code: &[u64]) -> io::Result<OwnedFd> {
    const PROG_LOAD: libc::c_long = 5;
    let license = c"GPL";
    bpf(PROG_LOAD, &[pair(kind, code.len() as u32), code.as_ptr() as u64, license.as_ptr() as u64, 0, 0, 0])
}

/// Encodes the program.
fn code(stacks: i32) -> [u64; 12] {
    const KERNEL: i32 = 0;
    const USER: i32 = 1 << 8;
    const GET_STACKID: i32 = 27;
    [
        instruction(0xbf, 0x16, 0),      // r6 = r1
        instruction(0x18, 0x12, stacks), // r2 = stacks
        0,
        instruction(0xb7, 0x03, KERNEL),      // r3 = KERNEL
        instruction(0x85, 0x00, GET_STACKID), // call
        instruction(0xbf, 0x61, 0),           // r1 = r6
        instruction(0x18, 0x12, stacks),      // r2 = stacks
        0,
        instruction(0xb7, 0x03, USER),        // r3 = USER
        instruction(0x85, 0x00, GET_STACKID), // call
        instruction(0xb7, 0x00, 0),           // r0 = 0
        instruction(0x95, 0x00, 0),           // exit
    ]
}

/// Encodes an instruction.
fn instruction(code: u8, registers: u8, immediate: i32) -> u64 {
    u64::from(code) | u64::from(registers) << 8 | u64::from(immediate as u32) << 32
}

/// The profiler's clock, for one thread.
fn clock(tid: u32, hertz: u32) -> io::Result<OwnedFd> {
    const SOFTWARE_SIZE_136: u64 = 1 | 136 << 32;
    const EXCLUDE_IDLE: u64 = 1 << 7;
    let mut attributes = [0u64; 17];
    attributes[0] = SOFTWARE_SIZE_136;
    attributes[2] = 1_000_000_000 / u64::from(hertz);
    attributes[5] = EXCLUDE_IDLE;
    // SAFETY: the size of the attributes is right, and the call keeps no reference to them.
    descriptor(unsafe {
        libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), tid as i32, -1, -1, 8)
    })
}

fn bpf(command: libc::c_long, attributes: &[u64]) -> io::Result<OwnedFd> {
    bpf_call(command, attributes).and_then(descriptor)
}

/// As [`bpf_call`], for calls that answer in their attributes.
fn bpf_call_mut(command: libc::c_long, attributes: &mut [u64]) -> io::Result<libc::c_long> {
    // SAFETY: the size of the attributes is right, and they are writable.
    check(unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) })
}

fn bpf_call(command: libc::c_long, attributes: &[u64]) -> io::Result<libc::c_long> {
    // SAFETY: the size of the attributes is right; the memory that they point to outlives the call.
    check(unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes)) })
}

fn descriptor(fd: libc::c_long) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is new and has no other owner.
    check(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Returns two fields of four bytes as one word.
fn pair(low: u32, high: u32) -> u64 {
    if cfg!(target_endian = "little") {
        u64::from(low) | u64::from(high) << 32
    } else {
        u64::from(high) | u64::from(low) << 32
    }
}
