//! The wire that a message goes over.

use std::time::SystemTime;

use super::answer::{Verdict, verdict};
use super::compression::Coding;
use super::connection::Deadline;
use super::endpoint::Endpoint;
use super::error::ExportError;
#[cfg(feature = "grpc")]
use super::grpc;
use super::http;
use super::request::{Request, check_header};
use super::settings::{Protocol, Settings};

/// One of the protocols, with where to send to.
#[derive(Debug)]
pub(super) enum Transport {
    Http(Endpoint, Request),
    #[cfg(feature = "grpc")]
    Grpc(Endpoint, Vec<(String, String)>),
}

impl Transport {
    pub(super) fn new(settings: &Settings) -> Result<Transport, ExportError> {
        let endpoint = Endpoint::parse(&settings.endpoint)?;
        settings.headers.iter().try_for_each(|(name, value)| check_header(name, value))?;
        match settings.protocol {
            Protocol::Http => {
                let request = Request::new(&endpoint, &settings.headers);
                Ok(Transport::Http(endpoint, request))
            }
            #[cfg(feature = "grpc")]
            Protocol::Grpc => Ok(Transport::Grpc(endpoint, settings.headers.clone())),
        }
    }

    /// Sends a message once.
    pub(super) fn attempt(&self, body: &[u8], coding: Coding, deadline: Deadline<'_>) -> Verdict {
        match self {
            Transport::Http(endpoint, request) => {
                let head = request.head(body.len(), coding);
                verdict(http::exchange(endpoint, &head, body, deadline), SystemTime::now())
            }
            #[cfg(feature = "grpc")]
            Transport::Grpc(endpoint, headers) => {
                grpc::judge(grpc::exchange(endpoint, headers, body, coding, deadline))
            }
        }
    }
}
