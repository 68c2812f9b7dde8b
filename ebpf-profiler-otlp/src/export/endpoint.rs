//! The URL of a collector.

use super::error::ExportError;

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// `true` for `https`.
    pub(super) secure: bool,
    /// The value of the `Host` header.
    pub(super) authority: String,
    /// A name or an address, without the brackets of IPv6.
    pub(super) host: String,
    pub(super) port: u16,
    /// The path with the query; begins with a slash.
    pub(super) path: String,
}

impl Endpoint {
    /// Parses `http[s]://HOST[:PORT][/PATH]`.
    pub(super) fn parse(url: &str) -> Result<Endpoint, ExportError> {
        let invalid = |why| ExportError::Endpoint { url: url.to_owned(), why };
        let (secure, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            _ => return Err(invalid("it does not begin with http:// or https://")),
        };
        if secure && cfg!(not(feature = "tls")) {
            return Err(invalid("https needs the feature `tls`"));
        }
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(invalid("it has spaces or control characters"));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) =
            split_port(authority, if secure { 443 } else { 80 }).ok_or(invalid("the port is no number"))?;
        if host.is_empty() || authority.contains('@') {
            return Err(invalid("there is no host, or a user name; credentials go into a header"));
        }
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{path}");
        Ok(Endpoint { secure, authority: authority.into(), host: host.into(), port, path })
    }
}

/// Splits `[::1]:4318` into `::1` and 4318.
fn split_port(authority: &str, default: u16) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.filter(|port| !port.is_empty()).map_or(Ok(default), str::parse).ok()?;
    Some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_urls_are_parsed() {
        for (url, host, port, path) in [
            ("http://localhost", "localhost", 80, "/"),
            ("HTTP://collector:4318/v1development/profiles", "collector", 4318, "/v1development/profiles"),
            ("http://[::1]:4318/a?b=c#d", "::1", 4318, "/a?b=c"),
            ("http://10.0.0.1?b", "10.0.0.1", 80, "/?b"),
        ] {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!((&*endpoint.host, endpoint.port, &*endpoint.path), (host, port, path), "{url}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn https_has_port_443() {
        let endpoint = Endpoint::parse("https://collector").unwrap();
        assert_eq!((endpoint.secure, endpoint.port), (true, 443));
        assert!(!Endpoint::parse("http://collector").unwrap().secure);
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn https_without_tls_is_an_error() {
        assert!(Endpoint::parse("https://collector").is_err());
    }

    #[test]
    fn invalid_urls_are_errors() {
        for url in
            ["", "localhost:4318", "http://", "http://a:b", "http://a:99999", "http://u@a", "http://a/\r\nb"]
        {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }
}
