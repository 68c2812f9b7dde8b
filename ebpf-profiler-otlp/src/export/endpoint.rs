//! Where to send to.

use super::error::ExportError;

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Whether to speak TLS.
    pub(super) secure: bool,
    /// As it stands in the `Host` header.
    pub(super) authority: String,
    /// Without the brackets of an address.
    pub(super) host: String,
    pub(super) port: u16,
    /// With the query, beginning with a slash.
    pub(super) path: String,
}

impl Endpoint {
    /// Takes `http[s]://HOST[:PORT][/PATH]` apart.
    pub(super) fn parse(url: &str) -> Result<Endpoint, ExportError> {
        let wrong = |why| ExportError::Endpoint { url: url.to_owned(), why };
        let (secure, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            _ => return Err(wrong("it does not begin with http:// or https://")),
        };
        if secure && cfg!(not(feature = "tls")) {
            return Err(wrong("TLS is not built in; it needs the feature of that name"));
        }
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(wrong("it has spaces or control characters"));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) =
            split_port(authority, if secure { 443 } else { 80 }).ok_or(wrong("the port is no number"))?;
        if host.is_empty() || authority.contains('@') {
            return Err(wrong("there is no host, or a user name; credentials go into a header"));
        }
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{path}");
        Ok(Endpoint { secure, authority: authority.into(), host: host.into(), port, path })
    }
}

/// `[::1]:4318` is `::1` and 4318.
fn split_port(authority: &str, otherwise: u16) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.filter(|port| !port.is_empty()).map_or(Ok(otherwise), str::parse).ok()?;
    Some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_work() {
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
    fn urls_with_tls() {
        let endpoint = Endpoint::parse("https://collector").unwrap();
        assert_eq!((endpoint.secure, endpoint.port), (true, 443));
        assert!(!Endpoint::parse("http://collector").unwrap().secure);
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_is_not_left_out_silently() {
        assert!(Endpoint::parse("https://collector").is_err());
    }

    #[test]
    fn urls_that_do_not() {
        for url in
            ["", "localhost:4318", "http://", "http://a:b", "http://a:99999", "http://u@a", "http://a/\r\nb"]
        {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }
}
