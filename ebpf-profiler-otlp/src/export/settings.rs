//! Configuration of an exporter, in code or by the environment.

use std::path::PathBuf;
use std::time::Duration;

use super::compression::{Compression, ParseCompressionError};
use super::error::ExportError;
use super::retry::Policy;
#[cfg(feature = "tls")]
use super::tls::Files;
use crate::resource::{Resource, percent_decoded};

/// Configures an [`Exporter`](crate::Exporter).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ebpf_profiler_otlp::{Resource, Settings};
///
/// let settings = Settings::new("http://collector:4318/v1development/profiles")
///     .resource(Resource::of_this_machine())
///     .header("authorization", "Bearer secret")
///     .timeout(Duration::from_secs(5));
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) endpoint: String,
    pub(super) protocol: Protocol,
    pub(super) resource: Resource,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout: Duration,
    pub(super) flush_timeout: Duration,
    pub(super) compression: Compression,
    pub(super) policy: Policy,
    pub(super) queue_bytes: usize,
    pub(super) spool: Option<(PathBuf, u64)>,
    pub(super) limit: usize,
    pub(super) hard_limit: usize,
    pub(super) all_frame_types: bool,
    pub(super) linker_names: bool,
    #[cfg(feature = "tls")]
    pub(super) tls: Files,
}

/// The transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// OTLP/HTTP: a POST to the endpoint's path.
    #[default]
    Http,
    /// OTLP/gRPC. The endpoint's path is ignored.
    #[cfg(feature = "grpc")]
    Grpc,
}

/// Cap on configured times: adding longer ones to the clock may overflow.
const DAY: Duration = Duration::from_secs(86_400);

/// The path of profiles in the OTLP specification.
const PATH: &str = "/v1development/profiles";

impl Settings {
    /// Creates settings for an endpoint, `http://HOST[:PORT][/PATH]`. `https` needs the feature `tls`.
    pub fn new(endpoint: impl Into<String>) -> Settings {
        Settings {
            endpoint: endpoint.into(),
            protocol: Protocol::default(),
            resource: Resource::of_this_machine(),
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            flush_timeout: Duration::from_secs(5),
            compression: Compression::default(),
            policy: Policy::default(),
            queue_bytes: 64 << 20,
            spool: None,
            limit: 4 << 20,
            hard_limit: 64 << 20,
            all_frame_types: false,
            linker_names: false,
            #[cfg(feature = "tls")]
            tls: Files::default(),
        }
    }

    /// Reads settings from the environment.
    ///
    /// | variable | default |
    /// | --- | --- |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT` | the next variable's value and `/v1development/profiles` |
    /// | `OTEL_EXPORTER_OTLP_ENDPOINT` | `http://localhost:4318`; for gRPC, port 4317 and no path |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_HEADERS`, `OTEL_EXPORTER_OTLP_HEADERS` | none; `name=value,name=value` |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT`, `OTEL_EXPORTER_OTLP_TIMEOUT` | 10000, in milliseconds |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_COMPRESSION`, `OTEL_EXPORTER_OTLP_COMPRESSION` | `gzip`; `gzip:6` sets a level; also `none`, and `zstd` with that feature |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL`, `OTEL_EXPORTER_OTLP_PROTOCOL` | `http/protobuf`; also `grpc` with that feature |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_CERTIFICATE`, `OTEL_EXPORTER_OTLP_CERTIFICATE` | the machine's certificate store; a PEM file replaces it |
    /// | `..._CLIENT_CERTIFICATE` and `..._CLIENT_KEY`, likewise | none; PEM files |
    /// | `..._INSECURE`, likewise | `false`: gRPC to `HOST:PORT` without a scheme uses TLS |
    /// | `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME` | none; attributes of all processes, see [`Resource::with_env`] |
    ///
    /// # Errors
    ///
    /// Fails if a variable has an invalid value or needs a feature that is not enabled.
    pub fn from_env() -> Result<Settings, ExportError> {
        Settings::from_variables(|name| std::env::var(name).ok())
    }

    /// Reads settings like [`from_env`](Settings::from_env) from another source of variables.
    ///
    /// # Errors
    ///
    /// Fails if a variable has an invalid value or needs a feature that is not enabled.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, ExportError> {
        let variables = Variables(&variable);
        let protocol = variables.protocol()?;
        let mut settings = Settings::new(variables.endpoint(protocol))
            .protocol(protocol)
            .resource(Resource::of_this_machine().with_variables(&variable))
            .compression(variables.compression()?);
        settings = variables.tls(settings)?;
        if let Some(timeout) = variables.timeout()? {
            settings = settings.timeout(timeout);
        }
        for (name, value) in variables.headers() {
            settings = settings.header(name, value);
        }
        Ok(settings)
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sets the transport protocol. Default: OTLP/HTTP.
    pub fn protocol(mut self, protocol: Protocol) -> Settings {
        self.protocol = protocol;
        self
    }

    /// Sets the OTLP resource attributes that all processes share. Default:
    /// [`Resource::of_this_machine`].
    pub fn resource(mut self, resource: Resource) -> Settings {
        self.resource = resource;
        self
    }

    /// Sets a PEM file with the trusted certificate authorities. Default: the machine's certificate
    /// store.
    ///
    /// This file and those of [`client_certificate`](Settings::client_certificate) are read again
    /// when they change.
    #[cfg(feature = "tls")]
    pub fn certificate(mut self, authorities: impl Into<PathBuf>) -> Settings {
        self.tls.authorities = Some(authorities.into());
        self
    }

    /// Sets the client certificate and its key, both PEM files.
    #[cfg(feature = "tls")]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Settings {
        self.tls.client = Some((certificate.into(), key.into()));
        self
    }

    /// Adds a header to all requests.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Settings {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the deadline of one attempt, name resolution and connecting included. Default: 10
    /// seconds; at most a day.
    pub fn timeout(mut self, timeout: Duration) -> Settings {
        self.timeout = timeout.min(DAY);
        self
    }

    /// Sets the time that [`flush`](ebpf_profiler_core::sink::Sink::flush) and dropping the
    /// exporter take at most. Default: 5 seconds.
    ///
    /// Messages that are not sent by then are dropped and counted in
    /// [`Stats::abandoned`](crate::Stats::abandoned). Zero drops the queue at once. With a
    /// [spool](Settings::spool), the second half of the time is for writing to it.
    pub fn flush_timeout(mut self, timeout: Duration) -> Settings {
        self.flush_timeout = timeout.min(DAY);
        self
    }

    /// Sets the compression of messages. Default: gzip at level 1; none without the feature `gzip`.
    pub fn compression(mut self, compression: Compression) -> Settings {
        self.compression = compression;
        self
    }

    /// Sets the wait before the second attempt, the longest wait, and the time after which a
    /// message is dropped. Defaults: 5, 30 and 300 seconds.
    ///
    /// Waits grow by a factor of 1.5 with jitter. A collector's `Retry-After` prolongs a wait, to
    /// at most an hour; if it exceeds the remaining time, the message is dropped at once. With
    /// a [`spool`](Settings::spool), messages are not dropped.
    pub fn retry(mut self, first: Duration, longest: Duration, give_up: Duration) -> Settings {
        self.policy = Policy { first: first.min(DAY), longest: longest.min(DAY), give_up };
        self
    }

    /// Sets the size of the queue in bytes. Default: 64 MiB.
    ///
    /// A profile's messages for which there is no room are dropped and counted in
    /// [`Stats::queue_full`](crate::Stats::queue_full).
    pub fn queue_bytes(mut self, bytes: usize) -> Settings {
        self.queue_bytes = bytes;
        self
    }

    /// Sets a directory for messages that cannot be delivered at present, and the maximum size of
    /// its files in bytes. Default: none.
    ///
    /// A message is moved there after the first failed attempt that may be repeated, and at the end
    /// if it is unsent. Messages that the collector refuses are dropped.
    ///
    /// Messages stay there until they are delivered; after a restart, the next exporter with this
    /// directory sends them. They are not dropped after a time. Only one exporter may use a
    /// directory.
    ///
    /// A missing directory is created with mode 0700, files have mode 0600. A directory that other
    /// users can write to is an error. Files that are not regular, belong to another user or
    /// exceed 64 MiB are skipped.
    pub fn spool(mut self, directory: impl Into<PathBuf>, max_bytes: u64) -> Settings {
        self.spool = Some((directory.into(), max_bytes));
        self
    }

    /// Sets the size in bytes above which messages are split; see
    /// [`Encoder::limit`](crate::Encoder::limit).
    pub fn limit(mut self, bytes: usize) -> Settings {
        self.limit = bytes;
        self
    }

    /// Enables frame types that some consumers reject; see
    /// [`Encoder::all_frame_types`](crate::Encoder::all_frame_types).
    pub fn all_frame_types(mut self, enabled: bool) -> Settings {
        self.all_frame_types = enabled;
        self
    }

    /// Enables mangled names beside demangled ones; see
    /// [`Encoder::linker_names`](crate::Encoder::linker_names).
    pub fn linker_names(mut self, enabled: bool) -> Settings {
        self.linker_names = enabled;
        self
    }
}

/// The `OTEL_EXPORTER_OTLP_*` variables; those of profiles override the general ones.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    /// Returns a variable's full name and value. An empty value counts as unset.
    fn find(&self, name: &str) -> Option<(String, String)> {
        let names = [format!("OTEL_EXPORTER_OTLP_PROFILES_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
        names.into_iter().find_map(|name| {
            let value = (self.0)(&name).map(|value| value.trim().to_owned());
            value.filter(|value| !value.is_empty()).map(|value| (name, value))
        })
    }

    fn value(&self, name: &str) -> Option<String> {
        self.find(name).map(|(_, value)| value)
    }

    fn check(&self, name: &str, known: &[&str], expected: &'static str) -> Result<(), ExportError> {
        match self.find(name) {
            Some((name, value)) if !known.contains(&&*value) => {
                Err(ExportError::Variable { name, value, expected })
            }
            _ => Ok(()),
        }
    }

    #[cfg(not(feature = "grpc"))]
    fn protocol(&self) -> Result<Protocol, ExportError> {
        self.check("PROTOCOL", &["http/protobuf"], "http/protobuf; grpc needs the feature `grpc`")?;
        Ok(Protocol::Http)
    }

    #[cfg(feature = "grpc")]
    fn protocol(&self) -> Result<Protocol, ExportError> {
        self.check("PROTOCOL", &["http/protobuf", "grpc"], "http/protobuf or grpc")?;
        let grpc = self.value("PROTOCOL").as_deref() == Some("grpc");
        Ok(if grpc { Protocol::Grpc } else { Protocol::Http })
    }

    /// Returns the URL. The path is appended to the general one, not to that of profiles, and not
    /// for gRPC.
    fn endpoint(&self, protocol: Protocol) -> String {
        match (protocol, self.find("ENDPOINT")) {
            #[cfg(feature = "grpc")]
            (Protocol::Grpc, Some((_, url))) => self.with_scheme(url),
            #[cfg(feature = "grpc")]
            (Protocol::Grpc, None) => "http://localhost:4317".into(),
            (Protocol::Http, Some((name, url))) if name.contains("PROFILES") => url,
            (Protocol::Http, Some((_, url))) => format!("{}{PATH}", url.trim_end_matches('/')),
            (Protocol::Http, None) => format!("http://localhost:4318{PATH}"),
        }
    }

    /// Adds the scheme to `HOST:PORT`, which is allowed for gRPC.
    #[cfg(feature = "grpc")]
    fn with_scheme(&self, url: String) -> String {
        let insecure = self.value("INSECURE").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        match (url.contains("://"), insecure) {
            (true, _) => url,
            (false, true) => format!("http://{url}"),
            (false, false) => format!("https://{url}"),
        }
    }

    #[cfg(feature = "tls")]
    fn tls(&self, mut settings: Settings) -> Result<Settings, ExportError> {
        if let Some(path) = self.value("CERTIFICATE") {
            settings = settings.certificate(path);
        }
        match (self.find("CLIENT_CERTIFICATE"), self.find("CLIENT_KEY")) {
            (Some((_, certificate)), Some((_, key))) => Ok(settings.client_certificate(certificate, key)),
            (None, None) => Ok(settings),
            (Some((name, value)), None) | (None, Some((name, value))) => {
                Err(ExportError::Variable { name, value, expected: "both a client certificate and its key" })
            }
        }
    }

    /// Rejects TLS variables: ignoring them would leave a connection unprotected.
    #[cfg(not(feature = "tls"))]
    fn tls(&self, settings: Settings) -> Result<Settings, ExportError> {
        let names = ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"];
        match names.into_iter().find_map(|name| self.find(name)) {
            Some((name, value)) => Err(ExportError::Variable { name, value, expected: "the feature `tls`" }),
            None => Ok(settings),
        }
    }

    fn compression(&self) -> Result<Compression, ExportError> {
        let Some((name, value)) = self.find("COMPRESSION") else { return Ok(Compression::default()) };
        value.parse().map_err(|error: ParseCompressionError| ExportError::Variable {
            name,
            value,
            expected: error.expected(),
        })
    }

    fn timeout(&self) -> Result<Option<Duration>, ExportError> {
        let Some((name, value)) = self.find("TIMEOUT") else { return Ok(None) };
        match value.parse() {
            Ok(millis @ 1..) => Ok(Some(Duration::from_millis(millis))),
            _ => Err(ExportError::Variable { name, value, expected: "milliseconds, 1 or more" }),
        }
    }

    fn headers(&self) -> Vec<(String, String)> {
        let list = self.value("HEADERS").unwrap_or_default();
        let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.trim().to_owned(), percent_decoded(value.trim()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<Settings, ExportError> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Settings::from_variables(|name| find(name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn defaults_are_those_of_the_specification() {
        let settings = from(&[]).unwrap();
        assert_eq!(settings.endpoint, "http://localhost:4318/v1development/profiles");
        assert_eq!(
            (settings.timeout, settings.compression),
            (Duration::from_secs(10), Compression::default())
        );
    }

    #[test]
    fn variables_of_profiles_override_general_ones() {
        let settings = from(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1/"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "7"),
            ("OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT", "8"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,c = d%20e"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
            ("OTEL_SERVICE_NAME", "here"),
        ]);
        let settings = settings.unwrap();
        assert_eq!(settings.endpoint, "http://a:1/v1development/profiles");
        assert_eq!((settings.timeout, settings.compression), (Duration::from_millis(8), Compression::None));
        assert_eq!(settings.headers, [("a".into(), "b".into()), ("c".into(), "d e".into())]);
        assert!(settings.resource.attributes().any(|pair| pair == ("service.name", "here")));

        let own = from(&[("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "http://a:1/x")]).unwrap();
        assert_eq!(own.endpoint, "http://a:1/x");
    }

    #[cfg(feature = "grpc")]
    #[test]
    fn grpc_has_port_4317_and_no_path() {
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let settings = from(&[grpc]).unwrap();
        assert_eq!((&*settings.endpoint, settings.protocol), ("http://localhost:4317", Protocol::Grpc));
        let settings = from(&[grpc, ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1")]).unwrap();
        assert_eq!(settings.endpoint, "http://a:1");
    }

    #[test]
    fn times_are_capped_at_a_day() {
        let most = Duration::MAX;
        let settings = Settings::new("http://a").timeout(most).flush_timeout(most).retry(most, most, most);
        assert_eq!((settings.timeout, settings.flush_timeout, settings.policy.first), (DAY, DAY, DAY));
    }

    #[test]
    fn unsupported_values_are_errors() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ] {
            assert!(matches!(from(&[(name, value)]), Err(ExportError::Variable { .. })), "{name}={value}");
        }
    }
}
