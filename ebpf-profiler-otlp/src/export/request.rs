//! The head of an HTTP request.

use super::compression::Coding;
use super::endpoint::Endpoint;
use super::error::ExportError;

/// The part of the head that all requests share.
#[derive(Debug)]
pub(super) struct Request {
    head: String,
}

impl Request {
    pub(super) fn new(endpoint: &Endpoint, headers: &[(String, String)]) -> Request {
        let mut head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/x-protobuf\r\n\
             User-Agent: ebpf-profiler-otlp/{}\r\n",
            endpoint.path,
            endpoint.authority,
            env!("CARGO_PKG_VERSION"),
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Request { head }
    }

    /// Returns the head of a request with a body of `len` bytes.
    pub(super) fn head(&self, len: usize, coding: Coding) -> String {
        let encoding = match coding {
            Coding::Identity => String::new(),
            _ => format!("Content-Encoding: {}\r\n", coding.name()),
        };
        format!("{}{encoding}Content-Length: {len}\r\n\r\n", self.head)
    }
}

/// Validates a header: a line break in it would start another header or the body.
pub(super) fn check_header(name: &str, value: &str) -> Result<(), ExportError> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let line = |c: char| c == '\t' || !c.is_control();
    if !name.is_empty() && name.bytes().all(token) && value.chars().all(line) {
        return Ok(());
    }
    Err(ExportError::Header { name: name.to_owned() })
}
