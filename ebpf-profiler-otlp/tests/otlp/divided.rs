//! A collector with a size limit: the parts of a message together contain the profile, and each one
//! is valid.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use ebpf_profiler_core::sink::Sink;
use ebpf_profiler_otlp::{Compression, Exporter, Resource, Settings, Stats};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use prost::Message;

use crate::fake::{self, Shape};
use crate::{check, consumers, content};

const LARGE: Shape = Shape { traces: 2_000, addresses: 3_000, ticks: 6_000, ..fake::SMALL };

/// A collector that rejects bodies above a size.
struct Picky {
    url: String,
    bodies: Receiver<Vec<u8>>,
}

impl Picky {
    fn new(limit: usize) -> Picky {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (sender, bodies) = channel();
        std::thread::spawn(move || {
            listener.incoming().flatten().try_for_each(|it| serve(it, limit, &sender))
        });
        Picky { url, bodies }
    }
}

/// Returns `None` when the test has ended.
fn serve(stream: TcpStream, limit: usize, bodies: &Sender<Vec<u8>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut len = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            len = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).unwrap();
    let status = if len > limit { "413 Content Too Large" } else { "200 OK" };
    // Before the answer, after which the exporter may end the test.
    let is_running = len > limit || bodies.send(body).is_ok();
    reader
        .into_inner()
        .write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())
        .unwrap();
    is_running.then_some(())
}

fn export(exporter: &mut Exporter, seed: u64) {
    exporter.take(&fake::profile(seed, LARGE)).unwrap();
}

/// Checks that the bodies are valid and together contain these profiles.
fn assert_whole(bodies: &[Vec<u8>], seeds: &[u64]) {
    let decode = |body: &Vec<u8>| ExportProfilesServiceRequest::decode(&**body).unwrap();
    let requests: Vec<_> = bodies.iter().map(decode).collect();
    for request in &requests {
        let complaints = [check::schema(request), consumers::all(request)].concat();
        assert_eq!(complaints, Vec::<String>::new());
    }
    let [seed] = seeds else { return };
    assert_eq!(content::of_requests(&requests), content::of_profile(&fake::profile(*seed, LARGE)));
}

fn settings(picky: &Picky, compression: Compression) -> Settings {
    let settings = Settings::new(&picky.url).resource(Resource::new()).compression(compression);
    // A busy machine takes longer for all parts.
    settings.linker_names(true).flush_timeout(std::time::Duration::from_secs(120))
}

fn finish(mut exporter: Exporter) -> Stats {
    exporter.flush().unwrap();
    exporter.stats()
}

#[test]
fn parts_together_contain_the_profile() {
    for compression in ["none", "gzip", "zstd"].iter().filter_map(|name| name.parse().ok()) {
        let picky = Picky::new(if compression == Compression::None { 100_000 } else { 40_000 });
        let mut exporter = Exporter::new(settings(&picky, compression)).unwrap();
        export(&mut exporter, 1);
        let stats = finish(exporter);
        assert!(stats.divided >= 3, "{stats}");
        assert_eq!((stats.delivered, stats.dropped(), stats.retries), (stats.divided + 1, 0, 0), "{stats}");
        let bodies: Vec<_> = picky.bodies.try_iter().collect();
        if compression == Compression::None {
            assert_whole(&bodies, &[1]);
        }
    }
}

#[test]
fn next_profile_is_split_at_the_new_limit() {
    let picky = Picky::new(100_000);
    let mut exporter = Exporter::new(settings(&picky, Compression::None)).unwrap();
    export(&mut exporter, 1);
    while exporter.stats().queued > 0 {
        std::thread::yield_now();
    }
    let divided = exporter.stats().divided;
    export(&mut exporter, 2);
    let stats = finish(exporter);
    assert_eq!((stats.divided, stats.dropped()), (divided, 0), "{stats}");
    assert_whole(&picky.bodies.try_iter().collect::<Vec<_>>(), &[]);
}

#[test]
fn parts_are_spooled() {
    let folder = std::env::temp_dir().join(format!("divided-{}", std::process::id()));
    let absent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = |url: &str| {
        let settings =
            Settings::new(url).resource(Resource::new()).linker_names(true).spool(&folder, 1 << 30);
        settings.flush_timeout(std::time::Duration::from_secs(5))
    };
    let mut exporter = Exporter::new(settings(&format!("http://{absent}/"))).unwrap();
    export(&mut exporter, 1);
    drop(exporter);

    let picky = Picky::new(60_000);
    let exporter = Exporter::new(settings(&picky.url)).unwrap();
    while exporter.stats().spooled > 0 {
        std::thread::yield_now();
    }
    let stats = finish(exporter);
    assert!(stats.divided > 0 && stats.delivered == stats.divided + 1 && stats.dropped() == 0, "{stats}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn division_ends_for_a_collector_that_takes_nothing() {
    let picky = Picky::new(0);
    let mut exporter = Exporter::new(settings(&picky, Compression::None)).unwrap();
    export(&mut exporter, 1);
    let stats = finish(exporter);
    assert_eq!((stats.delivered, stats.too_large), (0, stats.divided + 1), "{stats}");
    assert!(stats.divided < 1_000, "{stats}");
    assert!(stats.last_error.starts_with("the collector answered 413"), "{stats}");
}
