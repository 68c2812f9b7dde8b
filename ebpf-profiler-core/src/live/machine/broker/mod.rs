//! A process with the privileges to read other processes, so that the profiler needs none of them.
//!
//! ```text
//!   profiler: CAP_BPF, CAP_PERFMON                   broker: CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE
//!   a helper thread ── request (process, object) ──► a thread ──► opens it, checks it
//!        └─ reads it ◄────────── descriptor ────────────┘
//! ```
//!
//! | file | |
//! | --- | --- |
//! | `message.rs` | the bytes of a request and of an answer |
//! | `socket.rs` | messages with descriptors |
//! | `client.rs` | the side of the profiler: one connection for each thread that asks |
//! | `serve.rs` | the side of the broker: one thread for each connection |
//!
//! The objects and their checks are in [`access`](super::access), for both sides the same.
//!
//! The broker lets go of all privileges but three, and confines itself to the system calls of
//! [`BROKER`](super::confine::BROKER): it opens for reading, and has no network.

mod client;

mod message;

mod serve;

mod socket;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::io::FdFlags;
use rustix::thread::CapabilitySet;

pub(in crate::live) use self::client::Client;
use super::capability;
use super::{mapped_file, this_thread};

/// A process that opens the files of other processes for a profiler: its mappings, memory and code
/// files.
///
/// With it the program of the profiler needs neither `CAP_SYS_PTRACE` nor `CAP_DAC_READ_SEARCH`, which
/// together read and change everything on a machine. [Manual](crate::manual::security#a-broker): what
/// that prevents and what not.
///
/// The broker is this program, executed again: `main` begins with
/// [`serve_if_asked`](Broker::serve_if_asked). It ends with this program, or when the broker and the
/// profilers that [use](crate::live::Builder::broker) it are dropped.
///
/// # Examples
///
/// ```no_run
/// # use ebpf_profiler_core::internal::leaves::ebpf_profiler_unwind;
/// use ebpf_profiler_core::{Profiler, live::Broker};
/// use std::time::Duration;
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     Broker::serve_if_asked();
///     let broker = Broker::spawn()?;
///     broker.drop_privileges()?; // before this program starts threads
///     let builder = Profiler::builder().broker(&broker);
///     let profiler = builder.unwind(ebpf_profiler_unwind::tables()).start()?;
///     profiler.run_for(Duration::from_secs(10))?.write("machine.html")?;
///     Ok(())
/// }
/// ```
///
/// # Minimum kernel version
///
/// 5.10, as a profiler.
#[derive(Clone, Debug)]
pub struct Broker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Arc<Client>,
    child: Mutex<Child>,
}

/// A reference to a [`Broker`] that may have been dropped.
#[derive(Clone, Debug, Default)]
pub(in crate::live::machine) struct WeakBroker(Weak<Inner>);

impl WeakBroker {
    /// Returns the broker, unless it was dropped.
    pub(in crate::live::machine) fn upgrade(&self) -> Option<Broker> {
        self.0.upgrade().map(Broker)
    }
}

/// Counters of a [`Broker`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerStats {
    /// `true` while the broker answers. After it ended, a profiler opens what its own privileges
    /// permit.
    pub is_running: bool,
    /// Requests that the broker answered, with a descriptor or an error.
    pub answered: u64,
    /// Requests without an answer: the broker ended meanwhile, or had too many that did not return.
    pub unanswered: u64,
}

/// Environment variable that makes a program a broker: the number of its socket, then `+` if it ends
/// with the first thread of its parent.
const VARIABLE: &str = "EBPF_PROFILER_BROKER";

/// Time in which a new broker answers.
const START: Duration = Duration::from_secs(10);

/// Time in which a broker ends.
const END: Duration = Duration::from_millis(100);

/// Privileges of a broker.
const PRIVILEGES: CapabilitySet =
    CapabilitySet::SYS_PTRACE.union(CapabilitySet::DAC_READ_SEARCH).union(CapabilitySet::CHECKPOINT_RESTORE);

/// Privileges of which a profiler with a broker has none.
const DROPPED: CapabilitySet = PRIVILEGES.union(CapabilitySet::DAC_OVERRIDE);

impl Broker {
    /// Becomes a broker if [`Broker::spawn`] executed this program, and does not return then. Has to be
    /// the first call in `main`.
    pub fn serve_if_asked() {
        let Ok(asked) = std::env::var(VARIABLE) else { return };
        let error = serve::serve(&asked);
        eprintln!("ebpf-broker: {error}");
        std::process::exit(1);
    }

    /// Starts a broker with the privileges of this program. It executes `/proc/self/exe`, so threads
    /// may run already; but see [`drop_privileges`](Broker::drop_privileges).
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be executed, or is not a broker within 10 s, because it does not call
    /// [`serve_if_asked`](Broker::serve_if_asked) at first.
    #[doc(alias("privilege separation", "SCM_RIGHTS"))]
    pub fn spawn() -> io::Result<Broker> {
        Broker::spawn_with(&[])
    }

    fn spawn_with(arguments: &[&str]) -> io::Result<Broker> {
        if std::env::var_os(VARIABLE).is_some() {
            return Err(io::Error::other("main does not begin with Broker::serve_if_asked()"));
        }
        let (ours, theirs) = socket::pair()?;
        let child = command(&theirs).args(arguments).spawn()?;
        drop(theirs);
        let inner = Inner { client: Arc::new(Client::new(ours)), child: Mutex::new(child) };
        let broker = Broker(Arc::new(inner));
        if !broker.0.client.wait_for_start(START) {
            let text = "the broker did not start: main has to begin with Broker::serve_if_asked()";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        capability::set_broker();
        Ok(broker)
    }

    /// Drops the privileges that the broker has: `CAP_SYS_PTRACE`, `CAP_DAC_READ_SEARCH`,
    /// `CAP_CHECKPOINT_RESTORE`, and `CAP_DAC_OVERRIDE`, from all sets of this thread and of all that it
    /// starts. Nothing that they execute gains privileges (`no_new_privs`): `sudo` does not work there.
    ///
    /// Other capabilities stay. With some of them, as `CAP_SYS_ADMIN`, `CAP_SYS_MODULE`, `CAP_SETUID` or `CAP_BPF`
    /// together with `CAP_PERFMON`, a program reads what it likes, and user 0 opens the files of root. So
    /// run the program as another user with the capabilities that it needs.
    ///
    /// # Errors
    ///
    /// Fails if this program has other threads, as capabilities belong to threads.
    #[doc(alias("capset", "capabilities"))]
    pub fn drop_privileges(&self) -> io::Result<()> {
        if std::fs::read_dir("/proc/self/task")?.count() > 1 {
            let text = "other threads run already and would keep their privileges: drop them first in main";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        // Some programs cannot read it later: their files in /proc belong to root.
        let _ = mapped_file::vdso();
        capability::restrict(!DROPPED)?;
        rustix::thread::set_no_new_privs(true)?;
        Ok(())
    }

    /// Returns the counters.
    pub(in crate::live) fn stats(&self) -> BrokerStats {
        self.0.client.stats()
    }

    /// Returns the id of the process. No other one has it before this is dropped: the broker is not
    /// waited for.
    pub(in crate::live) fn id(&self) -> u32 {
        self.lock().id()
    }

    /// Returns a reference that does not keep the broker.
    pub(in crate::live::machine) fn downgrade(&self) -> WeakBroker {
        WeakBroker(Arc::downgrade(&self.0))
    }

    pub(in crate::live) fn client(&self) -> Arc<Client> {
        self.0.client.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Child> {
        self.0.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.client.close();
        let end = Instant::now() + END;
        // It stays a zombie if a server of files holds it for longer.
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
    }
}

/// Returns the command that starts a broker at the other end of a socket.
#[expect(unsafe_code, reason = "sets privileges between fork and exec")]
fn command(socket: &OwnedFd) -> Command {
    let socket = socket.as_raw_fd();
    // The signal at the end of a parent is that of the end of the thread that forked.
    let ends_with_thread = this_thread::id() == std::process::id();
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ebpf-broker").current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    command.env(VARIABLE, format!("{socket}{}", if ends_with_thread { "+" } else { "" }));
    // Ctrl-C ends the profiler, which still names functions then.
    command.process_group(0);
    // SAFETY: only system calls, on values of the stack.
    unsafe { command.pre_exec(move || prepare(socket)) };
    command
}

/// Prepares the new process: the socket and the privileges survive the exec, and nothing else is gained
/// by it.
#[expect(unsafe_code, reason = "a descriptor by its number")]
fn prepare(socket: RawFd) -> io::Result<()> {
    // SAFETY: it is open: this process is a copy of one that holds it.
    let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(socket) };
    rustix::io::fcntl_setfd(socket, FdFlags::empty())?;
    let mut sets = rustix::thread::capabilities(None)?;
    sets.inheritable |= sets.permitted & PRIVILEGES;
    // Not needed where root or the file gives them.
    let _ = rustix::thread::set_capabilities(None, sets);
    for privilege in PRIVILEGES {
        let _ = rustix::thread::configure_capability_in_ambient_set(privilege, true);
    }
    Ok(rustix::thread::set_no_new_privs(true)?)
}
