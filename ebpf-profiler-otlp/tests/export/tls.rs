//! The exporter and collectors that speak TLS, not all of them as they should.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use ebpf_profiler_core::sink::Sink;
use ebpf_profiler_otlp::{ExportError, Exporter, Resource, Settings, Stats, encode};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::collector::{Act, Collector, Stream};
use crate::{Directory, SECOND, profile, settings, wait_for};

/// A certificate authority and its directory.
struct Authority {
    folder: Directory,
    issuer: Issuer<'static, KeyPair>,
}

/// Paths of a certificate and its key.
#[derive(Clone)]
struct Signed {
    certificate: PathBuf,
    key: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let folder = Directory::new(&format!("tls-{name}"));
        fs::create_dir_all(&folder.0).unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(folder.0.join("authority.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    fn file(&self) -> PathBuf {
        self.folder.0.join("authority.pem")
    }

    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Signed {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let pair = KeyPair::generate().unwrap();
        let file = |ending| self.folder.0.join(format!("{name}.{ending}"));
        let signed = Signed { certificate: file("pem"), key: file("key") };
        fs::write(&signed.certificate, params.signed_by(&pair, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&signed.key, pair.serialize_pem()).unwrap();
        signed
    }

    fn sign_host(&self) -> Signed {
        self.sign("127.0.0.1", |_| {})
    }
}

impl Signed {
    /// Wraps connections in TLS with this certificate; requires client certificates of `clients` if
    /// it is `Some`.
    fn server(
        &self,
        clients: Option<&Authority>,
    ) -> impl Fn(TcpStream) -> Box<dyn Stream> + Clone + Send + use<> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = vec![CertificateDer::from_pem_file(&self.certificate).unwrap()];
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let config = Arc::new(config);
        move |stream| Box::new(StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream))
    }

    fn collector(&self, clients: Option<&Authority>) -> Collector {
        Collector::through(TcpListener::bind("127.0.0.1:0").unwrap(), [Act::ok()], self.server(clients))
    }
}

fn secure(collector: &Collector) -> Settings {
    settings(&collector.url().replace("http:", "https:")).timeout(2 * SECOND)
}

/// Exports a profile until it is delivered or was tried again.
fn export(settings: Settings) -> Stats {
    let mut exporter = Exporter::new(settings.flush_timeout(SECOND / 100)).unwrap();
    exporter.take(&profile(3)).unwrap();
    wait_for(&exporter, |stats| stats.delivered > 0 || stats.retries > 1)
}

#[test]
fn a_profile_arrives_as_it_was_encoded() {
    let authority = Authority::new("right");
    let collector = authority.sign_host().collector(None);
    let stats = export(secure(&collector).certificate(authority.file()));
    assert_eq!((stats.delivered, stats.retries), (1, 0), "{stats}");
    assert_eq!(collector.requests()[0].body, encode(&profile(3), &Resource::new()));
}

#[cfg(feature = "grpc")]
#[test]
fn large_profile_arrives_by_grpc() {
    use crate::grpc::{Act, Server};
    let authority = Authority::new("grpc");
    let server = Server::through(vec![Act::status(0)], authority.sign_host().server(None));
    let settings = settings(&server.url.replace("http:", "https:")).certificate(authority.file());
    let settings = settings.protocol(ebpf_profiler_otlp::Protocol::Grpc).timeout(10 * SECOND);
    let mut exporter = Exporter::new(settings).unwrap();
    exporter.take(&profile(30_000)).unwrap();
    let stats = wait_for(&exporter, |stats| stats.queued == 0);
    assert_eq!((stats.delivered, stats.retries), (1, 0), "{stats}");
    assert_eq!(server.messages.recv().unwrap(), encode(&profile(30_000), &Resource::new()));
}

#[test]
fn untrusted_collector_gets_nothing() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let long_ago = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    };
    for (signed, text) in [
        (other.sign_host(), "the collector's certificate is not signed by a trusted authority"),
        (ours.sign("elsewhere", |_| {}), "the collector's certificate is not for 127.0.0.1"),
        (ours.sign("127.0.0.1", long_ago), "the collector's certificate has expired"),
    ] {
        let collector = signed.collector(None);
        let stats = export(secure(&collector).certificate(ours.file()));
        assert_eq!((stats.delivered, stats.dropped(), stats.queued), (0, 0, 1), "{stats}");
        assert!(
            stats.last_error.starts_with(&format!("cannot secure the connection: {text}")),
            "{text}: {stats}"
        );
        assert!(collector.requests().is_empty());
    }
}

#[test]
fn machines_store_does_not_trust_an_unknown_authority() {
    let collector = Authority::new("machine").sign_host().collector(None);
    let settings = secure(&collector);
    // A machine without a store fails at the start.
    if let Err(error) = Exporter::new(settings.clone()) {
        return assert!(matches!(error, ExportError::Certificate { .. }), "{error}");
    }
    let stats = export(settings);
    assert!(stats.last_error.contains("not signed by a trusted authority"), "{stats}");
}

#[test]
fn client_certificate_is_sent_on_request() {
    let (authority, other) = (Authority::new("client"), Authority::new("stranger"));
    let collector = authority.sign_host().collector(Some(&authority));
    let settings = secure(&collector).certificate(authority.file());
    let stats = export(settings.clone());
    assert!(stats.last_error.contains("the collector may require a client certificate"), "{stats}");
    let stranger = other.sign("agent", |_| {});
    let stats = export(settings.clone().client_certificate(stranger.certificate, stranger.key));
    assert!(stats.last_error.contains("the collector does not trust the client certificate"), "{stats}");

    let agent = authority.sign("agent", |_| {});
    let stats = export(settings.client_certificate(agent.certificate, agent.key));
    assert_eq!((stats.delivered, stats.retries), (1, 0), "{stats}");
}

#[test]
fn renewed_certificates_are_read_again() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let collector = new.sign_host().collector(None);
    let file = old.file();
    let mut exporter = Exporter::new(secure(&collector).certificate(&file)).unwrap();
    exporter.take(&profile(3)).unwrap();
    wait_for(&exporter, |stats| stats.retries > 0);
    // An incomplete file first.
    fs::write(&file, "-----BEGIN CERTIFICATE-----\nMII").unwrap();
    let so_far = exporter.stats().retries;
    wait_for(&exporter, |stats| stats.retries > so_far + 1);
    fs::copy(new.file(), &file).unwrap();
    let stats = wait_for(&exporter, |stats| stats.queued == 0);
    assert_eq!((stats.delivered, stats.dropped()), (1, 0), "{stats}");
}

#[test]
fn server_without_tls_leads_to_another_attempt() {
    let authority = Authority::new("plain");
    for (act, text) in
        [(Act::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n".into()), "does not use TLS"), (Act::Drop, "cannot")]
    {
        let collector = Collector::through(TcpListener::bind("127.0.0.1:0").unwrap(), [act.clone()], {
            let act = act.clone();
            // Answers without reading: the bytes are no request.
            move |mut stream| {
                if let Act::Say(answer) = &act {
                    stream.write_all(answer).unwrap();
                }
                Box::new(stream)
            }
        });
        let stats = export(secure(&collector).certificate(authority.file()));
        assert_eq!((stats.delivered, stats.dropped()), (0, 0), "{stats}");
        assert!(stats.last_error.contains(text), "{act:?}: {stats}");
    }
}

#[test]
fn silent_handshake_ends_at_the_deadline() {
    let authority = Authority::new("silent");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let stats = export(settings(&url).certificate(authority.file()));
    assert!(stats.last_error.contains("the deadline has passed"), "{stats}");
}

#[test]
fn slow_handshake_ends_at_the_deadline() {
    let authority = Authority::new("dripping");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                // The head of a record of 16,000 bytes, then a byte every 20 ms.
                let mut written = stream.write_all(&[22, 3, 3, 0x3e, 0x80]);
                while written.is_ok() {
                    std::thread::sleep(SECOND / 50);
                    written = stream.write_all(&[2]);
                }
            });
        }
    });
    let stats = export(settings(&url).certificate(authority.file()));
    assert!(stats.last_error.contains("the deadline has passed"), "{stats}");
}

#[test]
fn invalid_certificate_files_are_errors() {
    let authority = Authority::new("files");
    let agent = authority.sign("agent", |_| {});
    let other = authority.sign("other", |_| {});
    let [missing, empty, fifo] = ["missing", "empty", "fifo"].map(|name| authority.folder.0.join(name));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fs::write(&empty, "nothing").unwrap();
    let settings = settings("https://127.0.0.1:1/").certificate(authority.file());
    for (settings, text) in [
        (settings.clone().certificate(&missing), "No such file"),
        (settings.clone().certificate(&fifo), "not a regular file but a pipe"),
        (settings.clone().certificate(&empty), "it has no pem certificate"),
        (settings.clone().client_certificate(&missing, &agent.key), "No such file"),
        (settings.clone().client_certificate(&agent.certificate, &empty), "it has no pem private key"),
        (settings.clone().client_certificate(&agent.certificate, &other.key), "KeyMismatch"),
    ] {
        let error = Exporter::new(settings).unwrap_err();
        assert!(matches!(error, ExportError::Certificate { .. }), "{error:?}");
        assert!(error.to_string().to_lowercase().contains(&text.to_lowercase()), "{error}");
    }
}
