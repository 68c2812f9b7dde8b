//! The profiler of OpenTelemetry, if its path is given, and a collector that receives its profiles.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use benches::bpf::{Ticking, loaded_sampler, program_of};
use benches::options::option;
use benches::program::Running;
use benches::usage::of_process;
use std::os::fd::AsRawFd as _;

use crate::form::fixtures;
use crate::received::{Received, Window};
use crate::{Outcome, Turn};

/// The running profiler.
pub(crate) struct Peer {
    /// Id of its program. [`sampler`](benches::bpf::sampler) would find an open descriptor of it.
    sampler: u32,
    messages: PathBuf,
    profiler: Ended,
    _collector: Ended,
}

/// Name of its program for samples.
const PROGRAM: &str = "native_tracer_entry";

/// Interval of its profiles.
const INTERVAL: Duration = Duration::from_secs(1);

/// A process that is ended on drop.
struct Ended(Child);

impl Peer {
    /// Starts the program of `--peer`; `None` without that option.
    pub(crate) fn start(hertz: u32) -> Outcome<Option<Peer>> {
        let program = option("peer", String::new());
        if program.is_empty() {
            return Ok(None);
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let messages = folder.join("peer.otlp");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let collector = collector(folder, &messages, port)?;
        let mut command = Command::new(program);
        command.args(["-collection-agent", &format!("127.0.0.1:{port}"), "-disable-tls"]);
        command.args(["-reporter-interval", "1s", "-monitor-interval", "1s"]);
        // Its buffers have the size for this rate. Its own clocks are stopped: those of the bench run its program.
        command.args(["-samples-per-second", &hertz.to_string()]);
        command.args(["-probabilistic-threshold", "1", "-probabilistic-interval", "5m"]);
        let log = fs::File::create(folder.join("peer.log"))?;
        let profiler = Ended(command.stdout(log.try_clone()?).stderr(log).spawn()?);
        let sampler = wait(
            || loaded_sampler(profiler.0.id(), PROGRAM).ok(),
            "the peer loads no program, see peer.log",
        )?;
        Ok(Some(Peer { sampler, messages, profiler, _collector: collector }))
    }

    /// Samples a thread for one round. The stacks follow later: see [`Peer::held`].
    pub(crate) fn turn(&self, script: &Running, hertz: u32, window: Duration) -> Outcome<(Turn, Window)> {
        /// Discovers the process with its first sample.
        const SETTLE: Duration = Duration::from_secs(1);
        let sampler = program_of(self.sampler)?;
        let ticking = Ticking::start(sampler.as_raw_fd(), &[script.busiest_thread()?], hertz)?;
        sleep(SETTLE);
        let (user, begin) = (of_process(self.profiler.0.id())?, now()?);
        let (runs, nanoseconds) = ticking.runs_and_time(window)?;
        let user = of_process(self.profiler.0.id())? - user;
        let window = Window { pid: script.pid(), begin, end: now()? };
        Ok((Turn { runs, nanoseconds, user, samples: 0, held: 0, raw: 0 }, window))
    }

    /// Counts the samples of some rounds, and those with all calls, once no further ones arrive.
    pub(crate) fn held(&self, windows: &[Window], depth: u32) -> Outcome<(u64, u64)> {
        let mut before = (0, 0);
        loop {
            sleep(4 * INTERVAL);
            let now = Received::read(&self.messages)?.held(windows, depth);
            if now == before {
                return Ok(now);
            }
            before = now;
        }
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
fn collector(folder: &Path, messages: &Path, port: u16) -> Outcome<Ended> {
    let found = fs::read_dir(fixtures())?.flatten();
    let program = found.map(|entry| entry.path().join("otelcol")).find(|path| path.is_file());
    let program = program.ok_or("there is no collector: cargo xtask fixtures builds one")?;
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

fn wait<T>(mut ready: impl FnMut() -> Option<T>, why: &str) -> Outcome<T> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match ready() {
            Some(it) => return Ok(it),
            None if Instant::now() > end => return Err(io::Error::other(why.to_owned()).into()),
            None => sleep(Duration::from_millis(100)),
        }
    }
}

/// Returns nanoseconds since 1970.
fn now() -> Outcome<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64)
}
