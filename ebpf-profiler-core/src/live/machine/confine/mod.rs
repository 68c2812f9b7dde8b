//! Confinement of threads to the system calls that they need (seccomp).
//!
//! A filter is a list of system calls that are allowed, as a program of classic BPF that the kernel
//! runs at each call:
//!
//! ```text
//!   ld  [4]                 architecture
//!   jeq this one, +1
//!   ret EPERM               system calls of 32-bit programs have other numbers
//!   ld  [0]                 number of the call
//!   jeq a number, +0, +1    for each call that is allowed always
//!   ret ALLOW
//!   jeq a number, +0, +n    for each call that is allowed with some arguments
//!   ld  [16 + 8 · index]    lower half of an argument
//!   …
//!   ret EPERM               all others
//! ```
//!
//! Other calls fail with `EPERM` and do not end the process. It is not ours: a call that a new version of the C library makes has
//! to cost a name, and not the program that embeds the profiler. The kernel remembers which numbers are always allowed, and runs no filter for
//! these (since Linux 5.11).
#![expect(unsafe_code, reason = "a system call that the standard library does not have")]

mod lists;

use std::io;

pub(super) use self::lists::BROKER;
pub(in crate::live) use self::lists::PROFILER;

/// System calls that are allowed.
#[derive(Clone, Copy, Debug)]
pub(in crate::live) struct AllowList(pub(super) &'static [&'static [Rule]]);

/// A system call that is allowed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Always(libc::c_long),
    /// If none of these bits is set in an argument.
    Without(libc::c_long, u32, u32),
    /// If all of these bits are set in an argument.
    With(libc::c_long, u32, u32),
    /// If an argument is one of these values.
    OneOf(libc::c_long, u32, &'static [u32]),
    /// It fails with this error instead: the caller tries another call then.
    Fails(libc::c_long, libc::c_int),
}

impl AllowList {
    /// Confines this thread and all that it starts from now on.
    pub(in crate::live) fn install(self) -> io::Result<()> {
        let mut program = self.program();
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // The kernel demands it of those who are not administrators.
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: the kernel copies the program, whose length is that of the vector.
        let error =
            unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
        if error == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns an error if the kernel has no filters.
    pub(in crate::live) fn check() -> io::Result<()> {
        let action = libc::SECCOMP_RET_ERRNO;
        // SAFETY: the kernel reads the number only.
        let error =
            unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
        if error == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn program(self) -> Vec<libc::sock_filter> {
        let mut program =
            vec![load(ARCHITECTURE), jump(EQUAL, AUDIT_ARCH, 1, 0), end(fails(libc::EPERM)), load(NUMBER)];
        self.0.iter().copied().flatten().for_each(|rule| rule.push(&mut program));
        program.push(end(fails(libc::EPERM)));
        program
    }
}

impl Rule {
    /// Appends its instructions. They begin and end with the number of the call loaded.
    fn push(self, program: &mut Vec<libc::sock_filter>) {
        let (number, allowed) = (self.number(), end(libc::SECCOMP_RET_ALLOW));
        let body = match self {
            Rule::Always(_) => vec![allowed],
            Rule::Fails(_, error) => vec![end(fails(error))],
            Rule::Without(_, index, bits) => {
                vec![load(argument(index)), jump(ANY_BIT, bits, 1, 0), allowed, end(fails(libc::EPERM))]
            }
            Rule::With(_, index, bits) => vec![
                load(argument(index)),
                statement(AND, bits),
                jump(EQUAL, bits, 0, 1),
                allowed,
                end(fails(libc::EPERM)),
            ],
            Rule::OneOf(_, index, values) => {
                let mut body = vec![load(argument(index))];
                for &value in values {
                    body.extend([jump(EQUAL, value, 0, 1), allowed]);
                }
                body.push(end(fails(libc::EPERM)));
                body
            }
        };
        program.push(jump(EQUAL, number, 0, body.len() as u8));
        program.extend(body);
    }

    fn number(self) -> u32 {
        let (Rule::Always(number)
        | Rule::Without(number, ..)
        | Rule::With(number, ..)
        | Rule::OneOf(number, ..)
        | Rule::Fails(number, _)) = self;
        number as u32
    }
}

/// The architecture whose numbers of system calls this program uses.
const AUDIT_ARCH: u32 = if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };

// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// Returns the offset of the lower half of an argument.
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;

fn fails(error: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | error as u32
}

fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn end(action: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, action)
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::process::Command;

    use super::*;

    /// Runs it in a thread that is confined.
    fn confined<T: Send + 'static>(list: AllowList, run: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(move || {
            list.install().unwrap();
            run()
        })
        .join()
        .unwrap()
    }

    fn is_denied<T>(result: io::Result<T>) -> bool {
        result.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
    }

    #[test]
    fn other_calls_fail_in_confined_threads_and_their_children() {
        AllowList::check().unwrap();
        for list in [PROFILER, BROKER] {
            let (own, child, written) = confined(list, || {
                let own = is_denied(UdpSocket::bind("127.0.0.1:0"));
                let child = std::thread::spawn(|| is_denied(UdpSocket::bind("127.0.0.1:0"))).join().unwrap();
                let written = is_denied(File::create("/tmp/confined-threads-write-nothing"));
                assert!(File::open("/proc/self/maps").is_ok());
                (own, child, written)
            });
            assert!(own && child && written);
            assert!(confined(list, || Command::new("/bin/true").status().is_err()));
        }
        assert!(UdpSocket::bind("127.0.0.1:0").is_ok(), "this thread is not");
    }

    #[test]
    fn code_cannot_be_made() {
        let file = File::open("/proc/self/exe").unwrap();
        let map = move |protection| {
            // SAFETY: a new mapping that is not used.
            let mapped = unsafe {
                libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
            };
            mapped != libc::MAP_FAILED
        };
        let (data, code) =
            confined(PROFILER, move || (map(libc::PROT_READ), map(libc::PROT_READ | libc::PROT_EXEC)));
        assert!(data && !code);
    }

    #[test]
    fn broker_writes_nothing() {
        let (mut read, mut write) = std::io::pipe().unwrap();
        assert!(confined(BROKER, move || is_denied(write.write(b"x"))));
        assert_eq!(std::io::Read::read(&mut read, &mut [0]).unwrap(), 0);
    }

    #[test]
    fn programs_are_short_and_jump_within() {
        for list in [PROFILER, BROKER] {
            let program = list.program();
            assert!(program.len() < 4096, "the limit of the kernel");
            let jumps = |it: &libc::sock_filter| u32::from(it.code) & 7 == libc::BPF_JMP;
            for (at, instruction) in program.iter().enumerate().filter(|(_, it)| jumps(it)) {
                let furthest = at + 1 + usize::from(instruction.jt.max(instruction.jf));
                assert!(furthest < program.len());
            }
            let mut numbers: Vec<u32> = list.0.iter().copied().flatten().map(|rule| rule.number()).collect();
            numbers.sort_unstable();
            let count = numbers.len();
            numbers.dedup();
            assert_eq!(count, numbers.len(), "a call is listed twice");
        }
    }
}
