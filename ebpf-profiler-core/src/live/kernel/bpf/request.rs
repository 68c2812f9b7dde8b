//! The system call and its requests, as the kernel defines them.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Commands of the system call.
pub(super) mod command {
    pub(in crate::live::kernel::bpf) const MAP_CREATE: libc::c_long = 0;
    pub(in crate::live::kernel::bpf) const MAP_UPDATE: libc::c_long = 2;
    pub(in crate::live::kernel::bpf) const MAP_DELETE: libc::c_long = 3;
    pub(in crate::live::kernel::bpf) const PROGRAM_LOAD: libc::c_long = 5;
    pub(in crate::live::kernel::bpf) const PIN: libc::c_long = 6;
    pub(in crate::live::kernel::bpf) const RUN: libc::c_long = 10;
    pub(in crate::live::kernel::bpf) const INFO: libc::c_long = 15;
    pub(in crate::live::kernel::bpf) const TRACEPOINT_OPEN: libc::c_long = 17;
    pub(in crate::live::kernel::bpf) const TYPES_LOAD: libc::c_long = 18;
    pub(in crate::live::kernel::bpf) const MAP_FREEZE: libc::c_long = 22;
    pub(in crate::live::kernel::bpf) const MAP_LOOKUP_BATCH: libc::c_long = 24;
    pub(in crate::live::kernel::bpf) const LINK_CREATE: libc::c_long = 28;
}

#[repr(C)]
pub(super) struct MapCreate {
    pub(super) shape: [u32; 5],
    pub(super) inner: i32,
    pub(super) numa_node: u32,
    pub(super) name: [u8; NAME],
}

#[repr(C)]
pub(super) struct Element {
    pub(super) map: i32,
    pub(super) reserved: u32,
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) flags: u64,
}

impl Element {
    pub(super) fn new(map: &OwnedFd, key: &u32, value: *const u8) -> Element {
        let key = std::ptr::from_ref(key) as u64;
        Element { map: map.as_raw_fd(), reserved: 0, key, value: value as u64, flags: 0 }
    }
}

#[repr(C)]
pub(super) struct Batch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) keys: u64,
    pub(super) values: u64,
    pub(super) count: u32,
    pub(super) map: i32,
    pub(super) flags: [u64; 2],
}

#[repr(C)]
pub(super) struct Pin {
    pub(super) path: u64,
    pub(super) fd: i32,
    pub(super) flags: u32,
}

#[repr(C)]
pub(super) struct TypesLoad {
    pub(super) types: u64,
    pub(super) log: u64,
    pub(super) size: u32,
    pub(super) log_size: u32,
    pub(super) log_level: u32,
    pub(super) reserved: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct ProgramLoad {
    pub(super) kind: u32,
    pub(super) count: u32,
    pub(super) instructions: u64,
    pub(super) license: u64,
    pub(super) log_level: u32,
    pub(super) log_size: u32,
    pub(super) log: u64,
    pub(super) kernel_version: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; NAME],
    pub(super) interface: u32,
    pub(super) attach_type: u32,
    pub(super) types: i32,
    pub(super) function_size: u32,
    pub(super) functions: u64,
    pub(super) function_count: u32,
    pub(super) line_size: u32,
    pub(super) lines: u64,
    pub(super) line_count: u32,
    pub(super) attach_to: u32,
}

#[repr(C)]
pub(super) struct TracepointOpen {
    pub(super) name: u64,
    pub(super) program: i32,
    pub(super) reserved: u32,
}

#[repr(C)]
pub(super) struct LinkCreate {
    pub(super) program: i32,
    pub(super) target: i32,
    pub(super) attach_type: u32,
    pub(super) flags: u32,
    /// A perf event: the cookie. A function of the kernel: 0, the cookie.
    pub(super) details: [u64; 2],
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Run {
    pub(super) program: i32,
    pub(super) answer: u32,
    /// Packet, repetitions and duration; unused for a raw tracepoint.
    pub(super) packet: [u32; 8],
    pub(super) arguments_size: u32,
    pub(super) arguments_out_size: u32,
    pub(super) arguments: u64,
    pub(super) arguments_out: u64,
    pub(super) flags: u32,
    pub(super) cpu: u32,
}

#[repr(C)]
pub(super) struct Info {
    pub(super) fd: i32,
    pub(super) len: u32,
    pub(super) info: u64,
}

/// Size of a name in bytes, with the zero at its end.
const NAME: usize = 16;

/// Truncates a name to the kernel's size.
pub(super) fn short_name(name: &str) -> [u8; NAME] {
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
pub(super) unsafe fn open<T>(command: libc::c_long, request: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: guaranteed by the caller; no one else owns the new descriptor.
    unsafe { Ok(OwnedFd::from_raw_fd(call(command, request)?)) }
}

/// Makes the system call.
///
/// # Safety
///
/// Every address in the request must be that of memory that the kernel may read or write, of the
/// size in the request.
pub(super) unsafe fn call<T>(command: libc::c_long, request: &mut T) -> io::Result<i32> {
    // SAFETY: the size is that of the request; the rest is guaranteed by the caller.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(request), size_of::<T>()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i32) }
}
