//! The kernel's descriptions of its tracepoints.

use std::ffi::CStr;
use std::fs;
use std::io;

/// Mounts tracefs for this thread and those that it starts, unless it is mounted.
pub(crate) fn mount() -> io::Result<()> {
    let call = |result: libc::c_int| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    let mount = |kind: &CStr, target: &CStr, flags| {
        // SAFETY: the strings end with a zero byte and outlive the call.
        call(unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) })
    };
    // SAFETY: both calls change this thread's view of the file system alone.
    call(unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) })?;
    mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE)?;
    match mount(c"tracefs", c"/sys/kernel/tracing", 0) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
        result => result,
    }
}

/// A tracepoint's number and the positions of its fields.
pub(crate) struct Tracepoint {
    pub(crate) id: u64,
    format: String,
}

impl Tracepoint {
    /// Reads the description of `event`, GROUP/NAME.
    pub(crate) fn read(event: &str) -> io::Result<Tracepoint> {
        let read = |file| fs::read_to_string(format!("/sys/kernel/tracing/events/{event}/{file}"));
        Ok(Tracepoint { id: read("id")?.trim().parse().unwrap(), format: read("format")? })
    }

    /// Returns the byte offset of a field.
    pub(crate) fn offset(&self, field: &str) -> usize {
        let is_field = |line: &&str| line.contains(&format!(" {field};"));
        let line = self.format.lines().find(is_field).unwrap();
        let offset = line.split("offset:").nth(1).and_then(|rest| rest.split(';').next());
        offset.unwrap().parse().unwrap()
    }
}
