//! The capability `http`: a stranger's request, held against the hosts that a recipe allows.
//!
//! Two layers. The name and port must be allowed; then every address that the name resolves to is
//! looked at, and the connection goes to one of those that passed, so that a name which resolves
//! differently a moment later (DNS rebinding) gains nothing.

use crate::address::{Reach, reach};
use crate::client::{Answer, Exchange, ExchangeError, send_to};
use std::net::SocketAddr;
use url::{Host, Url};
use whet_capability::{AllowedHost, Fetch, HostCall, HttpError, HttpRequest, HttpResponse};

/// Methods that a plugin may use.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// Headers that frame or route a request: the host writes them, or nobody does.
const OURS: [&str; 14] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
];
/// Headers of an answer that speak of a connection which the plugin does not have.
const HOP_BY_HOP: [&str; 6] =
    ["connection", "keep-alive", "proxy-authenticate", "trailer", "transfer-encoding", "upgrade"];
/// Most headers, and most bytes of their names and values.
const HEADERS: usize = 64;
const HEADER_BYTES: usize = 32 << 10;
/// Longest URL.
const URL_BYTES: usize = 8 << 10;

/// Makes plugins' requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Egress;

impl Fetch for Egress {
    fn fetch(
        &self,
        request: &HttpRequest,
        allowed: &[AllowedHost],
        response_bytes: usize,
        call: &HostCall<'_>,
    ) -> Result<HttpResponse, HttpError> {
        let url = checked_url(&request.url)?;
        let grant = grant_for(&url, allowed)?;
        let method = METHODS
            .into_iter()
            .find(|m| *m == request.method)
            .ok_or_else(|| HttpError::Denied(format!("the method must be one of {}", METHODS.join(", "))))?;
        let headers = checked_headers(&request.headers)?;
        let exchange = Exchange { method, url, headers, body: request.body.clone(), response_bytes };
        let answer = send_to(exchange, call.deadline, call.cancel, move |found| permitted(found, &grant))?;
        Ok(response(answer))
    }
}

fn checked_url(text: &str) -> Result<Url, HttpError> {
    if text.len() > URL_BYTES {
        return Err(HttpError::Denied(format!("a URL has at most {URL_BYTES} bytes")));
    }
    let url = Url::parse(text).map_err(|e| HttpError::Denied(format!("the URL cannot be read: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(HttpError::Denied("the URL must begin with http:// or https://".into()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(HttpError::Denied("a URL must not hold a user or password".into()));
    }
    Ok(url)
}

/// The grant that the URL's host and port fit.
fn grant_for(url: &Url, allowed: &[AllowedHost]) -> Result<AllowedHost, HttpError> {
    let host = match url.host() {
        Some(Host::Domain(name)) => name.trim_end_matches('.').to_ascii_lowercase(),
        Some(Host::Ipv4(v4)) => v4.to_string(),
        Some(Host::Ipv6(v6)) => format!("[{v6}]"),
        None => return Err(HttpError::Denied("the URL has no host".into())),
    };
    let usual = if url.scheme() == "https" { 443 } else { 80 };
    let port = url.port().unwrap_or(usual);
    let fits = |grant: &&AllowedHost| grant.host == host && grant.port.unwrap_or(usual) == port;
    // A grant with leave to go to local addresses outweighs one without.
    allowed.iter().filter(fits).max_by_key(|grant| grant.local).cloned().ok_or_else(|| {
        let grants: Vec<String> = allowed.iter().map(AllowedHost::to_string).collect();
        HttpError::Denied(format!("`{host}:{port}` is not among the hosts granted: {}", grants.join(", ")))
    })
}

/// The addresses that a grant lets a request go to. A name leads out only; `localhost` leads to this
/// machine only, and an address that the recipe spells out leads where it leads: both say so themselves.
/// Link-local, multicast and reserved addresses are closed to all.
fn permitted(found: Vec<SocketAddr>, grant: &AllowedHost) -> Result<Vec<SocketAddr>, ExchangeError> {
    let this_machine = grant.host == "localhost" || grant.host.ends_with(".localhost");
    let spelt_out = grant.local || grant.address().is_some();
    let fits = |address: &SocketAddr| match reach(address.ip()) {
        Reach::Public => !this_machine,
        Reach::Loopback => this_machine || spelt_out,
        Reach::Private => spelt_out && !this_machine,
        Reach::Never => false,
    };
    let fitting: Vec<SocketAddr> = found.into_iter().filter(fits).collect();
    if fitting.is_empty() {
        let help = if grant.local { "" } else { "; if that is meant, grant it as `http-local:`" };
        let text = format!("`{}` leads to no public address{help}", grant.host);
        return Err(ExchangeError::Denied(text));
    }
    Ok(fitting)
}

fn checked_headers(headers: &[(String, String)]) -> Result<Vec<(String, String)>, HttpError> {
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > HEADERS || bytes > HEADER_BYTES {
        return Err(HttpError::TooLarge);
    }
    for (name, value) in headers {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(HttpError::Denied("a header's name holds a character that it must not".into()));
        }
        if !value.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~')) {
            return Err(HttpError::Denied(format!("the header `{name}` holds a character that it must not")));
        }
        let lower = name.to_ascii_lowercase();
        if OURS.contains(&lower.as_str()) || lower.starts_with("proxy-") {
            return Err(HttpError::Denied(format!("the header `{lower}` is the host's to write")));
        }
    }
    Ok(headers.to_vec())
}

fn response(answer: Answer) -> HttpResponse {
    let kept = |(name, _): &(String, String)| !HOP_BY_HOP.contains(&name.as_str());
    HttpResponse {
        status: answer.status,
        headers: answer.headers.into_iter().filter(kept).collect(),
        body: answer.body,
    }
}

impl From<ExchangeError> for HttpError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::TimedOut => HttpError::TimedOut,
            ExchangeError::TooLarge => HttpError::TooLarge,
            ExchangeError::Denied(why) => HttpError::Denied(why),
            ExchangeError::Failed(why) => HttpError::Failed(why),
        }
    }
}
