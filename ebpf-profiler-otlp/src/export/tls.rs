//! TLS configuration and error texts.
//!
//! Certificate files are read again when they change, because short-lived certificates are renewed
//! in place. Without a configured file, the machine's certificate store is trusted.

use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ebpf_profiler_core::internal::files;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, RootCertStore};

use super::connection::Failure;
use super::error::ExportError;
use super::secure::Secure;
use super::stream::Stream;

/// The configured certificate files.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// Trusted authorities; `None` for the machine's certificate store.
    pub(super) authorities: Option<PathBuf>,
    /// Client certificate and key.
    pub(super) client: Option<(PathBuf, PathBuf)>,
}

/// The TLS configuration of connections to one host.
#[derive(Debug)]
pub(super) struct Tls {
    files: Files,
    protocol: &'static [u8],
    host: String,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    /// Modification times of the files.
    changed: Vec<Option<SystemTime>>,
}

impl Tls {
    /// Creates a configuration for a host and an ALPN protocol: `h2` or `http/1.1`.
    pub(super) fn new(files: &Files, host: &str, protocol: &'static [u8]) -> Result<Tls, ExportError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| ExportError::Endpoint {
            url: host.to_owned(),
            why: "the host is no valid name for a certificate",
        })?;
        let config = Arc::new(files.config(protocol)?);
        Ok(Tls {
            files: files.clone(),
            protocol,
            host: host.to_owned(),
            name,
            config,
            changed: files.changed(),
        })
    }

    /// Returns a stream that performs the handshake when it is first used.
    pub(super) fn stream(&mut self, socket: TcpStream) -> Result<Stream, Failure> {
        self.renew();
        let connection = ClientConnection::new(self.config.clone(), self.name.clone())
            .map_err(|error| Failure::Tls(error.to_string()))?;
        Ok(Stream::Tls(Box::new(Secure { connection, socket })))
    }

    /// Reads the files again if they changed; keeps the old configuration if they are invalid, as
    /// during a renewal.
    fn renew(&mut self) {
        let changed = self.files.changed();
        if changed == self.changed {
            return;
        }
        if let Ok(config) = self.files.config(self.protocol) {
            (self.config, self.changed) = (Arc::new(config), changed);
        }
    }

    /// Returns the TLS error in an I/O error; `None` if the socket failed.
    pub(super) fn failure(&self, error: &io::Error) -> Option<Failure> {
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(Failure::Tls(explain(error, &self.host)))
    }
}

impl Files {
    fn config(&self, protocol: &[u8]) -> Result<ClientConfig, ExportError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(self.roots()?.into(), provider.clone())
            .build()
            .map_err(|error| self.wrong(error.to_string()))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| self.wrong(error.to_string()))?
            .with_webpki_verifier(verifier);
        let mut config = match &self.client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| wrong(certificate, error.to_string()))?,
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, ExportError> {
        let mut roots = RootCertStore::empty();
        let found = match &self.authorities {
            Some(path) => certificates(path)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        // Stores of machines can hold invalid certificates besides valid ones.
        match roots.add_parsable_certificates(found) {
            (0, _) => Err(self.wrong("it has no certificate of an authority".into())),
            _ => Ok(roots),
        }
    }

    /// Returns an error about the authorities.
    fn wrong(&self, why: String) -> ExportError {
        wrong(self.authorities.as_deref().unwrap_or(Path::new("the machine's certificate store")), why)
    }

    fn changed(&self) -> Vec<Option<SystemTime>> {
        let client = self.client.iter().flat_map(|(certificate, key)| [certificate, key]);
        let modified = |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        self.authorities.iter().chain(client).map(modified).collect()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ExportError> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(wrong(path, "it has no PEM certificate".into())),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(path, error.to_string())),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ExportError> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|error| wrong(path, format!("it has no PEM private key: {error}")))
}

fn read(path: &Path) -> Result<Vec<u8>, ExportError> {
    files::read(path, MAX_FILE).map_err(|error| wrong(path, error.to_string()))
}

/// Maximum size of a certificate file in bytes.
const MAX_FILE: u64 = 16 << 20;

fn wrong(path: &Path, why: String) -> ExportError {
    ExportError::Certificate { path: path.to_owned(), why }
}

/// Returns an error text with the remedy.
fn explain(error: &rustls::Error, host: &str) -> String {
    use rustls::Error;
    match error {
        // BadSignature: the issuer has the name of a trusted authority and another key.
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "the collector's certificate is not signed by a trusted authority; set OTEL_EXPORTER_OTLP_CERTIFICATE to a PEM \
             file with its authority"
                .into()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!("the collector's certificate is not for {host}"),
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the collector's certificate has expired, or this machine's clock is wrong".into()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
            format!("{error}; the collector may require a client certificate")
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA | AlertDescription::BadCertificate | AlertDescription::DecryptError,
        ) => {
            format!("{error}; the collector does not trust the client certificate")
        }
        Error::InvalidMessage(_) => format!("the collector does not use TLS: {error}"),
        _ => error.to_string(),
    }
}
