//! The protocol that carries a message.

use std::time::SystemTime;

use super::answer::{Verdict, verdict};
use super::compression::Coding;
use super::connection::{Deadline, Peer};
use super::dial::Dialer;
use super::endpoint::Endpoint;
use super::error::ExportError;
#[cfg(feature = "grpc")]
use super::grpc;
use super::http;
use super::request::{Request, check_header};
use super::settings::{Protocol, Settings};
#[cfg(feature = "tls")]
use super::tls::Tls;

/// A protocol and its peer.
#[derive(Debug)]
pub(super) enum Transport {
    Http(Peer, Request),
    #[cfg(feature = "grpc")]
    Grpc(Peer, Vec<(String, String)>),
}

impl Transport {
    pub(super) fn new(settings: &Settings) -> Result<Transport, ExportError> {
        let endpoint = Endpoint::parse(&settings.endpoint)?;
        settings.headers.iter().try_for_each(|(name, value)| check_header(name, value))?;
        match settings.protocol {
            Protocol::Http => {
                let request = Request::new(&endpoint, &settings.headers);
                Ok(Transport::Http(peer(endpoint, settings, b"http/1.1")?, request))
            }
            #[cfg(feature = "grpc")]
            Protocol::Grpc => Ok(Transport::Grpc(peer(endpoint, settings, b"h2")?, settings.headers.clone())),
        }
    }

    /// Sends a message once and classifies the answer.
    pub(super) fn attempt(&mut self, body: &[u8], coding: Coding, deadline: Deadline<'_>) -> Verdict {
        match self {
            Transport::Http(peer, request) => {
                let head = request.head(body.len(), coding);
                verdict(http::exchange(peer, &head, body, deadline), SystemTime::now())
            }
            #[cfg(feature = "grpc")]
            Transport::Grpc(peer, headers) => {
                grpc::outcome(grpc::exchange(peer, headers, body, coding, deadline))
            }
        }
    }
}

#[cfg(feature = "tls")]
fn peer(endpoint: Endpoint, settings: &Settings, protocol: &'static [u8]) -> Result<Peer, ExportError> {
    let tls = endpoint.secure.then(|| Tls::new(&settings.tls, &endpoint.host, protocol)).transpose()?;
    Ok(Peer { endpoint, dialer: Dialer::default(), tls })
}

#[cfg(not(feature = "tls"))]
fn peer(endpoint: Endpoint, _: &Settings, _: &'static [u8]) -> Result<Peer, ExportError> {
    Ok(Peer { endpoint, dialer: Dialer::default() })
}
