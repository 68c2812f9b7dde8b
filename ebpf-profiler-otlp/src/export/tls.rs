//! TLS: whom we trust, who we are, and what is wrong in words.
//!
//! Files are read again when they have changed: certificates that live for an hour are renewed in place, and the
//! program goes on. Without a file of our own the authorities of this machine are trusted.

use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, RootCertStore};

use super::connection::Failure;
use super::error::ExportError;
use super::secure::Secure;
use super::stream::Stream;

/// The files that TLS is made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// Whom to trust; the authorities of this machine if it isn't set.
    pub(super) authorities: Option<PathBuf>,
    /// Who we are: certificate and key.
    pub(super) client: Option<(PathBuf, PathBuf)>,
}

/// How connections are secured.
#[derive(Debug)]
pub(super) struct Tls {
    files: Files,
    protocol: &'static [u8],
    host: String,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    /// When the files changed last.
    changed: Vec<Option<SystemTime>>,
}

impl Tls {
    /// For connections to this host, on which this protocol is spoken: `h2` or `http/1.1`.
    pub(super) fn new(files: &Files, host: &str, protocol: &'static [u8]) -> Result<Tls, ExportError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| ExportError::Endpoint {
            url: host.to_owned(),
            why: "no certificate can be for it",
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

    /// A stream whose handshake happens when it is first used.
    pub(super) fn stream(&mut self, socket: TcpStream) -> Result<Stream, Failure> {
        self.renew();
        let connection = ClientConnection::new(self.config.clone(), self.name.clone())
            .map_err(|error| Failure::Tls(error.to_string()))?;
        Ok(Stream::Tls(Box::new(Secure { connection, socket })))
    }

    /// Reads the files again if they have changed; half of a renewal is no reason to give up what there is.
    fn renew(&mut self) {
        let changed = self.files.changed();
        if changed == self.changed {
            return;
        }
        if let Ok(config) = self.files.config(self.protocol) {
            (self.config, self.changed) = (Arc::new(config), changed);
        }
    }

    /// What went wrong, if it was TLS and not the connection below it.
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
        // Machines have authorities that nobody can read; the others will do.
        match roots.add_parsable_certificates(found) {
            (0, _) => Err(self.wrong("there is no certificate of an authority".into())),
            _ => Ok(roots),
        }
    }

    /// Something is wrong with the authorities.
    fn wrong(&self, why: String) -> ExportError {
        wrong(self.authorities.as_deref().unwrap_or(Path::new("the store of this machine")), why)
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
        Ok(found) if found.is_empty() => Err(wrong(path, "there is no certificate in it, as PEM".into())),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(path, error.to_string())),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ExportError> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|error| wrong(path, format!("there is no private key in it, as PEM: {error}")))
}

fn read(path: &Path) -> Result<Vec<u8>, ExportError> {
    std::fs::read(path).map_err(|error| wrong(path, error.to_string()))
}

fn wrong(path: &Path, why: String) -> ExportError {
    ExportError::Certificate { path: path.to_owned(), why }
}

/// In words that say what to do.
fn explain(error: &rustls::Error, host: &str) -> String {
    use rustls::Error;
    match error {
        // The latter is of an authority that only has the name of one that we trust.
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "nobody whom we trust has signed the collector's certificate; whom to trust is in the file of \
             OTEL_EXPORTER_OTLP_CERTIFICATE"
                .into()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!("the collector's certificate isn't for {host}"),
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the collector's certificate has expired, or this machine's clock is wrong".into()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
            format!("{error}; the collector may want a certificate of ours")
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA | AlertDescription::BadCertificate | AlertDescription::DecryptError,
        ) => {
            format!("{error}; the collector doesn't trust our certificate")
        }
        Error::InvalidMessage(_) => format!("what answers doesn't speak TLS: {error}"),
        _ => error.to_string(),
    }
}
