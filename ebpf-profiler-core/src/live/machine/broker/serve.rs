//! The side of the broker.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::FileType;
use rustix::process::{DumpableBehavior, Signal};

use super::PRIVILEGES;
use super::message::{MAX_REQUEST, decode_request, encode_answer};
use super::socket;
use crate::live::machine::access::{Opened, Request};
use crate::live::machine::{capability, confine, priority};

/// Maximum number of connections: the threads of a profiler that may be stuck, and some that are not.
pub(super) const MAX_CONNECTIONS: usize = 80;

/// Stack of a thread, in bytes.
const STACK: usize = 256 << 10;

/// Serves the socket that `asked` names until its other end is closed, and then ends this program.
/// Returns why it cannot.
pub(super) fn serve(asked: &str) -> io::Error {
    match socket_of(asked).and_then(|(socket, ends_with_parent)| {
        restrict(ends_with_parent)?;
        accept(&socket)
    }) {
        // Without the end of threads that a server of files holds.
        Ok(()) => std::process::exit(0),
        Err(error) => error,
    }
}

/// Returns the socket of a broker, and `true` if it ends with its parent.
#[expect(unsafe_code, reason = "a descriptor by its number")]
fn socket_of(asked: &str) -> io::Result<(OwnedFd, bool)> {
    // Otherwise anyone could execute a program with privileges in its file as their broker. With it, the
    // process that executed this program had them, too.
    if !rustix::thread::no_new_privs()? {
        return Err(io::Error::other("not executed by Broker::spawn()"));
    }
    let (number, ends_with_parent) = match asked.strip_suffix('+') {
        Some(number) => (number, true),
        None => (asked, false),
    };
    let number: RawFd = number.parse().map_err(|_| io::Error::other("no number of a socket"))?;
    if number <= 2 {
        return Err(io::Error::other("not executed by Broker::spawn()"));
    }
    // SAFETY: nothing else has run in this program that owns a descriptor above 2; one that is not open
    // fails at once.
    let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(socket)?.st_mode);
    if kind != FileType::Socket {
        return Err(io::Error::other("no socket"));
    }
    // SAFETY: as before, and it is open.
    Ok((unsafe { OwnedFd::from_raw_fd(number) }, ends_with_parent))
}

/// Drops what a broker does not need.
#[expect(unsafe_code, reason = "signals are ignored by a call that the libraries mark as unsafe")]
fn restrict(ends_with_parent: bool) -> io::Result<()> {
    let _ = rustix::thread::set_name(c"ebpf-broker");
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // The profiler ends at its own time, and the broker with it.
        // SAFETY: no handler is set.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    priority::raise();
    capability::restrict(PRIVILEGES)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    if ends_with_parent {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    confine::BROKER.install()
}

/// Takes connections until there can be no further one.
pub(super) fn accept(socket: &OwnedFd) -> io::Result<()> {
    socket::send(socket, &[1], None)?;
    let connections = Arc::new(AtomicUsize::new(0));
    loop {
        match socket::receive(socket, &mut [0; 8]) {
            // Closed, also with messages that it did not take.
            Ok((0, _)) | Err(_) => return Ok(()),
            Ok((_, Some(connection))) => start(connection, &connections),
            // There was no room for the descriptor.
            Ok((_, None)) => {}
        }
    }
}

/// Starts the thread of a connection, or closes it.
fn start(connection: OwnedFd, connections: &Arc<AtomicUsize>) {
    if connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
        connections.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let count = connections.clone();
    let thread = std::thread::Builder::new().name("ebpf-broker".to_owned()).stack_size(STACK);
    let started = thread.spawn(move || {
        answer_all(&connection);
        count.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers the requests of a connection until it is closed.
pub(super) fn answer_all(connection: &OwnedFd) {
    let mut buffer = [0; MAX_REQUEST + 1];
    while let Ok((length @ 1.., _)) = socket::receive(connection, &mut buffer) {
        let request = decode_request(&buffer[..length]);
        let answer = request.ok_or_else(|| io::ErrorKind::InvalidInput.into()).and_then(|it| open(&it));
        let (bytes, descriptor) = encode_answer(answer);
        if socket::send(connection, &bytes, descriptor.as_ref().map(AsFd::as_fd)).is_err() {
            break;
        }
    }
}

/// Opens what is requested, if it is no file but a mapped one or code: the path of any other file could be
/// in the request.
fn open(request: &Request) -> io::Result<Opened> {
    let opened = request.open()?;
    match &opened {
        Opened::MappedFile(found) if !found.is_mapped && !is_code(&found.file) => {
            Err(io::ErrorKind::PermissionDenied.into())
        }
        _ => Ok(opened),
    }
}

fn is_code(file: &File) -> bool {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF"
}
