//! An OpenTelemetry collector as a child process.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use live_suite::paths::fixtures;

use crate::certificates::Certificates;
use crate::received::Received;
use crate::scratch::Scratch;

/// Options of a collector.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options<'a> {
    /// TLS certificates; clients have to be signed by the same authority.
    pub(crate) certificates: Option<&'a Certificates>,
    /// Maximum size of an HTTP request body, in bytes.
    pub(crate) most_bytes: Option<usize>,
    /// File for the received messages, as JSON, one message per line.
    pub(crate) file: Option<&'a str>,
}

/// A running collector; killed on drop.
pub(crate) struct Otelcol {
    program: PathBuf,
    config: String,
    output: String,
    ports: [u16; 2],
    child: Option<Child>,
}

/// Returns the program that `cargo xtask fixtures` builds; `None` if it is missing, which fails the
/// test in CI.
pub(crate) fn program() -> Option<PathBuf> {
    let folders = fs::read_dir(fixtures()).into_iter().flatten().flatten();
    let program = folders
        .filter(|folder| folder.file_name().to_string_lossy().starts_with("otelcol-"))
        .map(|folder| folder.path().join("otelcol"))
        .find(|program| program.is_file());
    if program.is_none() {
        test_needs::skip("there is no collector: cargo xtask fixtures builds one");
    }
    program
}

impl Otelcol {
    pub(crate) fn start(program: &Path, scratch: &Scratch, options: &Options<'_>) -> Otelcol {
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
        let config = scratch.write("collector.yaml", &config(ports, options));
        let output = scratch.write("collector.log", "");
        let mut collector = Otelcol { program: program.to_owned(), config, output, ports, child: None };
        collector.start_again();
        collector
    }

    pub(crate) fn start_again(&mut self) {
        let mut output = OpenOptions::new().append(true).open(&self.output).unwrap();
        // The one before may have been killed within a line.
        output.write_all(b"\n").unwrap();
        let child = Command::new(&self.program)
            .args(["--config", &self.config, "--feature-gates", "service.profilesSupport"])
            .stderr(output)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let end = Instant::now() + Duration::from_secs(30);
        while !self.ports.iter().all(|&port| TcpStream::connect(("127.0.0.1", port)).is_ok()) {
            assert!(Instant::now() < end, "{}", fs::read_to_string(&self.output).unwrap());
            sleep(Duration::from_millis(50));
        }
    }

    /// Kills the collector with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn endpoint(&self, protocol: &str) -> String {
        format!("http://127.0.0.1:{}", self.ports[usize::from(protocol == "http")])
    }

    /// Ends the collector and returns everything received since the first start.
    pub(crate) fn received(&mut self) -> Received {
        self.kill();
        self.so_far()
    }

    /// Returns everything received until now. The last line may be half written.
    pub(crate) fn so_far(&self) -> Received {
        let text = fs::read_to_string(&self.output).unwrap();
        Received::new(text[..text.rfind('\n').map_or(0, |end| end + 1)].to_owned())
    }
}

impl Drop for Otelcol {
    fn drop(&mut self) {
        self.kill();
    }
}

fn config([grpc, http]: [u16; 2], options: &Options<'_>) -> String {
    let tls = options.certificates.map_or(String::new(), |it| {
        format!(
            ", tls: {{ cert_file: {}, key_file: {}, client_ca_file: {} }}",
            it.server, it.server_key, it.authority
        )
    });
    let most = options.most_bytes.map_or(String::new(), |most| format!(", max_request_body_size: {most}"));
    let (exporter, name) = options.file.map_or(Default::default(), |path| {
        (format!("  file: {{ path: {path}, flush_interval: 100ms }}\n"), ", file")
    });
    format!(
        "receivers:
  otlp:
    protocols:
      grpc: {{ endpoint: '127.0.0.1:{grpc}'{tls} }}
      http: {{ endpoint: '127.0.0.1:{http}'{tls}{most} }}
exporters:
  debug: {{ verbosity: detailed, sampling_initial: 1000000 }}
{exporter}service:
  telemetry: {{ metrics: {{ level: none }} }}
  pipelines:
    profiles: {{ receivers: [otlp], exporters: [debug{name}] }}
"
    )
}
