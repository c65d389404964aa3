//! One request and its answer, by a deadline.
//!
//! Sockets cannot be waited for and cancelled at once, and a server that drips a byte a second keeps
//! every timeout of a socket from firing. So the exchange runs on a thread of its own, and the caller
//! waits for the thread: until the answer, the deadline or the cancel. A thread that nobody waits for
//! any more ends by the exchange's own deadline.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use url::Url;
use whet_capability::Cancel;

/// How often a caller looks whether it is cancelled.
const GLANCE: Duration = Duration::from_millis(20);
/// Exchanges of the process at once, those that nobody waits for included.
const EXCHANGES: usize = 1024;
/// Time for a connection to be made, at most.
const CONNECT: Duration = Duration::from_secs(30);
/// Bytes kept of what a connection's failure says.
const REASON_BYTES: usize = 300;

/// Exchanges that are under way.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// A request that its maker trusts; strangers' requests go through [`crate::Egress`].
#[derive(Clone)]
pub struct Exchange {
    /// The method.
    pub method: &'static str,
    /// Where to; `http` or `https`.
    pub url: Url,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// The largest body of an answer, in bytes.
    pub response_bytes: usize,
}

/// What came back, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Header names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first value of the header `name`, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Why nothing came back. Texts hold no URL and no header, since those may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The deadline passed, or the caller was cancelled.
    #[error("no answer in time")]
    TimedOut,
    /// The answer's body is too large.
    #[error("the answer is too large")]
    TooLarge,
    /// The addresses of the host are not allowed.
    #[error("{0}")]
    Denied(String),
    /// No connection, or no HTTP at its other end.
    #[error("{0}")]
    Failed(String),
}

/// Sends a request and waits for the answer, until `deadline` at most. Returns soon after `cancel` is
/// pulled. https is verified against the public authorities; redirects are answers.
pub fn send(exchange: Exchange, deadline: Instant, cancel: &Cancel) -> Result<Answer, ExchangeError> {
    send_to(exchange, deadline, cancel, Ok)
}

/// [`send`], connecting only to those of the host's addresses that `choose` leaves. It runs on another
/// thread, after the name was resolved, and the connection is made to just these addresses.
pub(crate) fn send_to(
    exchange: Exchange,
    deadline: Instant,
    cancel: &Cancel,
    choose: impl FnOnce(Vec<SocketAddr>) -> Result<Vec<SocketAddr>, ExchangeError> + Send + 'static,
) -> Result<Answer, ExchangeError> {
    if cancel.is_pulled() || deadline <= Instant::now() {
        return Err(ExchangeError::TimedOut);
    }
    let place = Place::take()?;
    let (sender, answer) = mpsc::channel();
    let exchanging = move || {
        let _place = place;
        // Nobody listens when the caller has left.
        let _ = sender.send(exchange_now(&exchange, deadline, choose));
    };
    std::thread::Builder::new()
        .name("whet-http".into())
        .spawn(exchanging)
        .map_err(|e| ExchangeError::Failed(format!("no thread for the request: {e}")))?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match answer.recv_timeout(left.min(GLANCE)) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ExchangeError::Failed("the request's thread died".into()));
            }
            Err(RecvTimeoutError::Timeout) if left.is_zero() || cancel.is_pulled() => {
                return Err(ExchangeError::TimedOut);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// One of the [`EXCHANGES`]; given back on drop.
struct Place;

impl Place {
    fn take() -> Result<Self, ExchangeError> {
        if UNDER_WAY.fetch_add(1, Ordering::Relaxed) < EXCHANGES {
            return Ok(Place);
        }
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        Err(ExchangeError::Failed(format!("more than {EXCHANGES} requests at once")))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

fn exchange_now(
    exchange: &Exchange,
    deadline: Instant,
    choose: impl FnOnce(Vec<SocketAddr>) -> Result<Vec<SocketAddr>, ExchangeError>,
) -> Result<Answer, ExchangeError> {
    let found = exchange.url.socket_addrs(|| None).map_err(|e| {
        ExchangeError::Failed(format!("the host's name does not resolve: {}", short(&e.to_string())))
    })?;
    let addresses = choose(found)?;
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ExchangeError::TimedOut);
    }
    let agent = ureq::AgentBuilder::new()
        .redirects(0)
        .max_idle_connections(0)
        .timeout(left)
        .timeout_connect(left.min(CONNECT))
        .user_agent(concat!("whet/", env!("CARGO_PKG_VERSION")))
        .resolver(move |_: &str| Ok(addresses.clone()))
        .build();
    let mut request = agent.request_url(exchange.method, &exchange.url).set("Accept-Encoding", "identity");
    for (name, value) in &exchange.headers {
        request = request.set(name, value);
    }
    let sent = if exchange.body.is_empty() { request.call() } else { request.send_bytes(&exchange.body) };
    let response = match sent {
        Ok(response) | Err(ureq::Error::Status(_, response)) => response,
        Err(ureq::Error::Transport(transport)) => return Err(failure(&transport, deadline)),
    };
    let status = response.status();
    let mut headers = Vec::new();
    for name in response.headers_names() {
        headers.extend(
            response.all(&name).into_iter().map(|value| (name.to_ascii_lowercase(), value.to_owned())),
        );
    }
    headers.sort();
    headers.dedup();
    let mut body = Vec::new();
    let most = exchange.response_bytes as u64;
    let read = response.into_reader().take(most.saturating_add(1)).read_to_end(&mut body);
    if body.len() as u64 > most {
        return Err(ExchangeError::TooLarge);
    }
    match read {
        Ok(_) => Ok(Answer { status, headers, body }),
        Err(_) if deadline <= Instant::now() => Err(ExchangeError::TimedOut),
        Err(e) => Err(ExchangeError::Failed(format!("the answer breaks off: {}", short(&e.to_string())))),
    }
}

/// The words of a failed connection, without the URL that ureq puts before them.
fn failure(transport: &ureq::Transport, deadline: Instant) -> ExchangeError {
    if deadline <= Instant::now() {
        return ExchangeError::TimedOut;
    }
    let mut text = transport.kind().to_string();
    if let Some(source) = std::error::Error::source(transport) {
        let source = source.to_string();
        if source.contains("timed out") {
            return ExchangeError::TimedOut;
        }
        text.push_str(": ");
        text.push_str(&source);
    }
    ExchangeError::Failed(short(&text))
}

/// Printable, and not long: a server may have written part of it.
fn short(text: &str) -> String {
    let mut out: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end = (0..=REASON_BYTES.min(out.len())).rev().find(|&i| out.is_char_boundary(i)).unwrap_or(0);
    out.truncate(end);
    out
}
