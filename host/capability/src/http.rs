//! Requests to hosts that a recipe names.

use crate::HostCall;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A request as the plugin wrote it: nothing of it is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, as in `POST`.
    pub method: String,
    /// An absolute URL.
    pub url: String,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
}

/// What the server answered, redirects included: they are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status, as in 200.
    pub status: u16,
    /// Header names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// Not allowed.
    #[error("denied: {0}")]
    Denied(String),
    /// No answer within the deadline, or the call was cancelled.
    #[error("timed out")]
    TimedOut,
    /// Larger than what may come or go.
    #[error("too large")]
    TooLarge,
    /// No connection, or an answer that is not HTTP.
    #[error("{0}")]
    Failed(String),
}

/// Whoever answers the capability `http`.
pub trait Fetch: Send + Sync {
    /// Makes one request to one of the `allowed` hosts; a body of more than `response_bytes` is
    /// [`HttpError::TooLarge`]. Answers by `call.deadline`.
    fn fetch(
        &self,
        request: &HttpRequest,
        allowed: &[AllowedHost],
        response_bytes: usize,
        call: &HostCall<'_>,
    ) -> Result<HttpResponse, HttpError>;
}

/// A host that a recipe allows: `HOST` or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllowedHost {
    /// A DNS name in lower case, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// The only port; without it 443 for https and 80 for http.
    pub port: Option<u16>,
    /// The name may lead to loopback and private addresses.
    pub local: bool,
}

/// The text does not name exactly one host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not name one host: write a name or an address, and `:PORT` if it needs one")]
pub struct AllowedHostError(String);

impl AllowedHost {
    /// The same host, with leave to lead to loopback and private addresses.
    pub fn local(self) -> Self {
        AllowedHost { local: true, ..self }
    }

    /// The address, where the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        address(&self.host)
    }
}

fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        // An IPv4 address has one spelling, its own.
        Some(inner) => {
            let v6 = inner.parse::<Ipv6Addr>().ok().filter(|v6| v6.to_ipv4_mapped().is_none());
            v6.map(IpAddr::V6)
        }
        None => host.parse().ok().filter(IpAddr::is_ipv4),
    }
}

impl FromStr for AllowedHost {
    type Err = AllowedHostError;

    /// Reads `HOST` or `HOST:PORT`; no scheme, path, user or wildcard.
    fn from_str(text: &str) -> Result<Self, AllowedHostError> {
        let refused = || AllowedHostError(text.chars().take(100).collect());
        let name_ends = if text.starts_with('[') { text.find(']').map(|i| i + 1) } else { text.find(':') };
        let (host, rest) = text.split_at(name_ends.unwrap_or(text.len()));
        let port = match rest.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(refused)?)
            }
            None if rest.is_empty() => None,
            _ => return Err(refused()),
        };
        let label = |l: &str| {
            (1..=63).contains(&l.len())
                && l.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        let is_name = host.len() <= 253 && host.split('.').all(label);
        // `0177.0.0.1` and `2130706433` are addresses to some and names to others.
        let numeric = host.rsplit('.').next().is_some_and(|l| l.starts_with(|c: char| c.is_ascii_digit()));
        if address(host).is_none() && (!is_name || numeric) {
            return Err(refused());
        }
        // One spelling for an address.
        let host = match address(host) {
            Some(IpAddr::V6(v6)) => format!("[{v6}]"),
            _ => host.to_ascii_lowercase(),
        };
        Ok(AllowedHost { host, port, local: false })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_reads_back_what_it_wrote() {
        for text in ["api.example.com", "localhost:8080", "10.0.0.7:1", "[::1]:8000", "my_judge"] {
            assert_eq!(text.parse::<AllowedHost>().map(|h| h.to_string()), Ok(text.to_owned()));
        }
        let upper: AllowedHost = "API.Example.com".parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(upper.host, "api.example.com");
    }

    #[test]
    fn what_names_no_host_or_several_is_refused() {
        let texts = [
            "",
            "*",
            "*.a.com",
            "a/b",
            "user@a.com",
            "http://a.com",
            "a:0",
            "a:70000",
            "a:",
            "a:+1",
            "::1",
            "[::1",
            "[::1]x",
            "a..b",
            ".a",
            "2130706433",
            "0x7f.0.0.1",
            "127.1",
            "a b",
            "a%00",
            "ä.com",
            "[fe80::1%25eth0]",
            "[::ffff:127.0.0.1]",
        ];
        for text in texts {
            assert!(text.parse::<AllowedHost>().is_err(), "{text}");
        }
    }
}
