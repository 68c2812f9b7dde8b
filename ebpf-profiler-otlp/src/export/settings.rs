//! What an exporter can be told, in code or by the environment.

use std::path::PathBuf;
use std::time::Duration;

use super::compression::Compression;
use super::error::ExportError;
use super::retry::Policy;
#[cfg(feature = "tls")]
use super::tls::Files;
use crate::resource::{Resource, percent_decoded};

/// Where and how to send.
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

/// How profiles are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// OTLP/HTTP: a POST to the path of the endpoint.
    #[default]
    Http,
    /// OTLP/gRPC: the path is given, that of the endpoint doesn't count.
    #[cfg(feature = "grpc")]
    Grpc,
}

/// Times that are longer than this are no times to wait; the clock can't count all of them.
const DAY: Duration = Duration::from_secs(86_400);

/// The path that the specification gives profiles.
const PATH: &str = "/v1development/profiles";

impl Settings {
    /// Sends to this URL, with its path as it stands: `http://HOST[:PORT][/PATH]`; `https` needs the
    /// feature `tls`.
    pub fn new(endpoint: impl Into<String>) -> Settings {
        Settings {
            endpoint: endpoint.into(),
            protocol: Protocol::default(),
            resource: Resource::of_this_machine(),
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            flush_timeout: Duration::from_secs(10),
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

    /// Takes the settings from the environment.
    ///
    /// | variable | default |
    /// | --- | --- |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT` | the next one and `/v1development/profiles` |
    /// | `OTEL_EXPORTER_OTLP_ENDPOINT` | `http://localhost:4318`; with gRPC port 4317 and no path |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_HEADERS`, `OTEL_EXPORTER_OTLP_HEADERS` | none; `name=value,name=value` |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT`, `OTEL_EXPORTER_OTLP_TIMEOUT` | 10000, in milliseconds |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_COMPRESSION`, `OTEL_EXPORTER_OTLP_COMPRESSION` | `gzip`; or `none`, or `zstd` with the feature of that name; `gzip:6` chooses a level |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL`, `OTEL_EXPORTER_OTLP_PROTOCOL` | `http/protobuf`; or `grpc` with the feature of that name |
    /// | `OTEL_EXPORTER_OTLP_PROFILES_CERTIFICATE`, `OTEL_EXPORTER_OTLP_CERTIFICATE` | the authorities of this machine; a PEM file of others to trust |
    /// | `..._CLIENT_CERTIFICATE` and `..._CLIENT_KEY`, likewise | none; PEM files |
    /// | `..._INSECURE`, likewise | `false`: gRPC to `HOST:PORT` without a scheme speaks TLS |
    /// | `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME` | none; for all processes, see [`Resource::with_env`] |
    ///
    /// # Errors
    ///
    /// When a value can't be understood or asks for what isn't there.
    pub fn from_env() -> Result<Settings, ExportError> {
        Settings::from_variables(|name| std::env::var(name).ok())
    }

    /// The same as [`from_env`](Settings::from_env) for variables from elsewhere.
    ///
    /// # Errors
    ///
    /// When a value can't be understood or asks for what isn't there.
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

    /// Where messages are sent to.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sets how to send; OTLP/HTTP without it.
    pub fn protocol(mut self, protocol: Protocol) -> Settings {
        self.protocol = protocol;
        self
    }

    /// Sets what goes with every process; without it [what this machine is](Resource::of_this_machine).
    pub fn resource(mut self, resource: Resource) -> Settings {
        self.resource = resource;
        self
    }

    /// Trusts only the authorities in this PEM file; those of this machine without it.
    ///
    /// This file and those of [`client_certificate`](Settings::client_certificate) are read again when they change.
    #[cfg(feature = "tls")]
    pub fn certificate(mut self, authorities: impl Into<PathBuf>) -> Settings {
        self.tls.authorities = Some(authorities.into());
        self
    }

    /// Says who we are, by a certificate and its key in PEM files.
    #[cfg(feature = "tls")]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Settings {
        self.tls.client = Some((certificate.into(), key.into()));
        self
    }

    /// Adds a header to every request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Settings {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets how long one attempt may take; 10 seconds without it.
    pub fn timeout(mut self, timeout: Duration) -> Settings {
        self.timeout = timeout.min(DAY);
        self
    }

    /// Sets how long the end may take, in which what is queued is sent; 10 seconds without it.
    pub fn flush_timeout(mut self, timeout: Duration) -> Settings {
        self.flush_timeout = timeout.min(DAY);
        self
    }

    /// Sets how messages are packed; by gzip with level 1 without it, where that feature is there.
    pub fn compression(mut self, compression: Compression) -> Settings {
        self.compression = compression;
        self
    }

    /// Sets the time before the second attempt, the longest between two attempts, and when to give a message up;
    /// 5, 30 and 300 seconds without it.
    pub fn retry(mut self, first: Duration, longest: Duration, give_up: Duration) -> Settings {
        self.policy = Policy { first: first.min(DAY), longest: longest.min(DAY), give_up };
        self
    }

    /// Sets how many bytes of messages wait at most; 64 MiB without it.
    pub fn queue_bytes(mut self, bytes: usize) -> Settings {
        self.queue_bytes = bytes;
        self
    }

    /// Keeps messages in a directory of their own while the collector doesn't take them, up to so many bytes.
    ///
    /// They stay there until they are delivered, also beyond the end of the program: the next exporter with this
    /// directory sends them. Nothing is given up after a time then. Only one exporter may use a directory.
    pub fn spool(mut self, directory: impl Into<PathBuf>, most_bytes: u64) -> Settings {
        self.spool = Some((directory.into(), most_bytes));
        self
    }

    /// Sets the size above which a message is split; see [`Encoder::limit`](crate::Encoder::limit).
    pub fn limit(mut self, bytes: usize) -> Settings {
        self.limit = bytes;
        self
    }

    /// Whether frames have types that not everybody accepts; see
    /// [`Encoder::all_frame_types`](crate::Encoder::all_frame_types).
    pub fn all_frame_types(mut self, all: bool) -> Settings {
        self.all_frame_types = all;
        self
    }

    /// Whether functions also have the names that the linker knows them by; see
    /// [`Encoder::linker_names`](crate::Encoder::linker_names).
    pub fn linker_names(mut self, all: bool) -> Settings {
        self.linker_names = all;
        self
    }
}

/// The variables for exporters; those for profiles stand above those for everything.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    /// The value, and the name of the variable that it comes from. An empty one counts as not set.
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

    fn check(&self, name: &str, known: &[&str], wanted: &'static str) -> Result<(), ExportError> {
        match self.find(name) {
            Some((name, value)) if !known.contains(&&*value) => {
                Err(ExportError::Variable { name, value, wanted })
            }
            _ => Ok(()),
        }
    }

    #[cfg(not(feature = "grpc"))]
    fn protocol(&self) -> Result<Protocol, ExportError> {
        self.check("PROTOCOL", &["http/protobuf"], "http/protobuf; grpc needs the feature of that name")?;
        Ok(Protocol::Http)
    }

    #[cfg(feature = "grpc")]
    fn protocol(&self) -> Result<Protocol, ExportError> {
        self.check("PROTOCOL", &["http/protobuf", "grpc"], "http/protobuf or grpc")?;
        let grpc = self.value("PROTOCOL").as_deref() == Some("grpc");
        Ok(if grpc { Protocol::Grpc } else { Protocol::Http })
    }

    /// A URL for profiles is taken as it is, one for everything gets the path; gRPC needs none.
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

    /// gRPC is also given as `HOST:PORT`.
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
                Err(ExportError::Variable { name, value, wanted: "a client's certificate and its key, both" })
            }
        }
    }

    /// What was meant to secure a connection isn't left out silently.
    #[cfg(not(feature = "tls"))]
    fn tls(&self, settings: Settings) -> Result<Settings, ExportError> {
        let names = ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"];
        match names.into_iter().find_map(|name| self.find(name)) {
            Some((name, value)) => {
                Err(ExportError::Variable { name, value, wanted: "the feature `tls` for it" })
            }
            None => Ok(settings),
        }
    }

    fn compression(&self) -> Result<Compression, ExportError> {
        let Some((name, value)) = self.find("COMPRESSION") else { return Ok(Compression::default()) };
        value.parse().map_err(|wanted| ExportError::Variable { name, value, wanted })
    }

    fn timeout(&self) -> Result<Option<Duration>, ExportError> {
        let Some((name, value)) = self.find("TIMEOUT") else { return Ok(None) };
        match value.parse() {
            Ok(millis @ 1..) => Ok(Some(Duration::from_millis(millis))),
            _ => Err(ExportError::Variable { name, value, wanted: "milliseconds, 1 or more" }),
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
    fn defaults_are_those_of_opentelemetry() {
        let settings = from(&[]).unwrap();
        assert_eq!(settings.endpoint, "http://localhost:4318/v1development/profiles");
        assert_eq!(
            (settings.timeout, settings.compression),
            (Duration::from_secs(10), Compression::default())
        );
    }

    #[test]
    fn variables_for_profiles_stand_above() {
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
    fn grpc_has_its_own_port_and_no_path() {
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let settings = from(&[grpc]).unwrap();
        assert_eq!((&*settings.endpoint, settings.protocol), ("http://localhost:4317", Protocol::Grpc));
        let settings = from(&[grpc, ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1")]).unwrap();
        assert_eq!(settings.endpoint, "http://a:1");
    }

    #[test]
    fn no_time_is_too_long() {
        let most = Duration::MAX;
        let settings = Settings::new("http://a").timeout(most).flush_timeout(most).retry(most, most, most);
        assert_eq!((settings.timeout, settings.flush_timeout, settings.policy.first), (DAY, DAY, DAY));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
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
