//! The profiler of OpenTelemetry, and a collector that receives its profiles.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bpf::{loaded_program, program_of, runs};

/// The running profiler of OpenTelemetry. Ends with this.
#[derive(Debug)]
pub struct Peer {
    profiler: Ended,
    messages: PathBuf,
    _collector: Ended,
}

/// A process that is ended on drop.
#[derive(Debug)]
struct Ended(Child);

impl Peer {
    /// Starts a collector, and the profiler at the path `program` with `arguments`.
    ///
    /// The collector is the one of `cargo xtask fixtures` in the folder `fixtures`. The folder gets
    /// what it receives, `peer.otlp`, and what the profiler prints, `peer.log`.
    ///
    /// # Errors
    ///
    /// Fails if one of them does not start.
    pub fn start(program: &str, arguments: &[&str], fixtures: &Path, folder: &Path) -> io::Result<Peer> {
        let messages = folder.join("peer.otlp");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let collector = collector(fixtures, folder, &messages, port)?;
        let log = fs::File::create(folder.join("peer.log"))?;
        let mut command = Command::new(program);
        command.args(["-collection-agent", &format!("127.0.0.1:{port}"), "-disable-tls"]);
        command.args(["-reporter-interval", "1s", "-monitor-interval", "1s"]);
        let profiler = Ended(command.args(arguments).stdout(log.try_clone()?).stderr(log).spawn()?);
        Ok(Peer { profiler, messages, _collector: collector })
    }

    /// Returns its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.profiler.0.id()
    }

    /// Returns the file of the messages that the collector received.
    #[must_use]
    pub fn messages(&self) -> &Path {
        &self.messages
    }

    /// Waits until its program of a type and a name is attached and has run, by the kernel's
    /// statistics of programs.
    ///
    /// # Errors
    ///
    /// Fails if it doesn't run within 5 minutes.
    pub fn wait_until_it_runs(&self, kind: u32, name: &str) -> io::Result<()> {
        // Before it attaches the program, it loads and drops others of that type.
        let count = || runs(program_of(loaded_program(self.pid(), kind, name)?)?.as_raw_fd());
        let has_run = || count().is_ok_and(|(count, _)| count > 0).then_some(());
        wait(has_run, "the peer attaches no program, see peer.log")
    }

    /// Returns the id of its program of a type and a name, once it is loaded.
    ///
    /// # Errors
    ///
    /// Fails if it isn't loaded within 5 minutes.
    pub fn program(&self, kind: u32, name: &str) -> io::Result<u32> {
        let loaded = || loaded_program(self.pid(), kind, name).ok();
        wait(loaded, "the peer loads no program, see peer.log")
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the collector of `cargo xtask fixtures`, which writes messages to a file.
fn collector(fixtures: &Path, folder: &Path, messages: &Path, port: u16) -> io::Result<Ended> {
    let found = fs::read_dir(fixtures)?.flatten().map(|entry| entry.path());
    let program = found.map(|path| if path.is_dir() { path.join("otelcol") } else { path });
    let program = program.filter(|path| path.ends_with("otelcol")).find(|path| path.is_file());
    let program =
        program.ok_or_else(|| io::Error::other("there is no collector: cargo xtask fixtures builds one"))?;
    let config = folder.join("peer.yaml");
    // The collector would append.
    fs::write(messages, "")?;
    fs::write(&config, configuration(messages, port))?;
    let mut command = Command::new(program);
    command.arg("--config").arg(config).args(["--feature-gates", "service.profilesSupport"]);
    let collector = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    wait(|| TcpStream::connect(("127.0.0.1", port)).ok(), "the collector doesn't start")?;
    Ok(collector)
}

fn configuration(messages: &Path, port: u16) -> String {
    format!(
        "receivers:
  otlp: {{ protocols: {{ grpc: {{ endpoint: '127.0.0.1:{port}', max_recv_msg_size_mib: 64 }} }} }}
exporters:
  file: {{ path: '{}', format: proto, flush_interval: 100ms }}
service:
  telemetry: {{ metrics: {{ level: none }} }}
  pipelines:
    profiles: {{ receivers: [otlp], exporters: [file] }}
",
        messages.display()
    )
}

/// Returns what `ready` returns once that is not `None`.
fn wait<T>(mut ready: impl FnMut() -> Option<T>, why: &str) -> io::Result<T> {
    // An emulated machine is slow.
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        match ready() {
            Some(it) => return Ok(it),
            None if Instant::now() > end => return Err(io::Error::other(why.to_owned())),
            None => sleep(Duration::from_millis(100)),
        }
    }
}
