//! A program that is executed one instruction at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

pub(crate) type Registers = libc::user_regs_struct;

const INT3: u8 = 0xcc;

/// A stopped process; killed on drop.
pub(crate) struct Tracee {
    child: Child,
    /// Signal to deliver with the next step.
    pending: libc::c_int,
}

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The instruction was executed.
    Step,
    /// A signal was delivered: its handler comes next, if it has one.
    Signal,
    /// The process is gone.
    End,
}

impl Tracee {
    /// Starts a program, which is stopped before its first instruction.
    pub(crate) fn start(mut command: Command) -> io::Result<Tracee> {
        let trace = || {
            // SAFETY: PTRACE_TRACEME takes no pointers, and is async-signal-safe.
            let result = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
            if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: the closure calls nothing but ptrace.
        let child = unsafe { command.pre_exec(trace) }.spawn()?;
        let mut tracee = Tracee { child, pending: 0 };
        tracee.wait();
        Ok(tracee)
    }

    /// Runs to the entry of the program, over the loader. Fails if the process ends before.
    pub(crate) fn run_to_entry(&mut self) -> io::Result<()> {
        let gone = || io::Error::other("the entry was not reached");
        let entry = self.entry().ok_or_else(gone)?;
        let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", self.pid()))?;
        let mut byte = [0];
        memory.read_exact_at(&mut byte, entry)?;
        memory.write_all_at(&[INT3], entry)?;
        // SAFETY: PTRACE_CONT takes no pointers.
        unsafe { libc::ptrace(libc::PTRACE_CONT, self.pid() as libc::pid_t, 0, 0) };
        let signal = self.wait();
        memory.write_all_at(&byte, entry)?;
        let mut registers = self.registers().filter(|_| signal == Some(libc::SIGTRAP)).ok_or_else(gone)?;
        registers.rip = entry;
        // SAFETY: the kernel reads one `user_regs_struct` from the address.
        unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.pid() as libc::pid_t, 0, &raw mut registers) };
        Ok(())
    }

    /// Returns the address of the program's entry, from its auxiliary vector.
    fn entry(&self) -> Option<u64> {
        let auxv = std::fs::read(format!("/proc/{}/auxv", self.pid())).ok()?;
        let words: Vec<u64> = auxv.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        words.chunks(2).find(|pair| pair[0] == libc::AT_ENTRY).map(|pair| pair[1])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn registers(&self) -> Option<Registers> {
        let mut registers = std::mem::MaybeUninit::<Registers>::zeroed();
        // SAFETY: the kernel writes one `user_regs_struct` to the address.
        let result = unsafe {
            libc::ptrace(libc::PTRACE_GETREGS, self.pid() as libc::pid_t, 0, registers.as_mut_ptr())
        };
        // SAFETY: all bits are valid for its integers, and they were zeroed.
        (result == 0).then(|| unsafe { registers.assume_init() })
    }

    /// Executes one instruction, or delivers a signal.
    pub(crate) fn step(&mut self) -> Event {
        let signal = std::mem::take(&mut self.pending);
        // SAFETY: PTRACE_SINGLESTEP takes no pointers.
        let result = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid() as libc::pid_t, 0, signal) };
        if result < 0 {
            return Event::End;
        }
        match self.wait() {
            Some(libc::SIGTRAP) if signal != 0 => Event::Signal,
            Some(libc::SIGTRAP) => Event::Step,
            Some(other) => {
                // It stops before the handler, and nothing was executed.
                self.pending = other;
                Event::Step
            }
            None => Event::End,
        }
    }

    /// Waits for the next stop, and returns its signal.
    fn wait(&mut self) -> Option<libc::c_int> {
        let mut status = 0;
        // SAFETY: the kernel writes one integer.
        let pid = unsafe { libc::waitpid(self.pid() as libc::pid_t, &mut status, 0) };
        (pid > 0 && libc::WIFSTOPPED(status)).then(|| libc::WSTOPSIG(status))
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
