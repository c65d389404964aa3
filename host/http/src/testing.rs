//! A server for tests: says what it is told, on a port of its own, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A request as it arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The request line, as in `GET / HTTP/1.1`.
    pub line: String,
    /// Header names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Received {
    /// The first value of the header `name`, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// A server; it stops when it is dropped.
pub struct Server {
    /// Where it listens, on the loopback interface.
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    stopping: Arc<AtomicBool>,
}

/// Serves each connection with `answer`, on a thread of its own: the number of the request, the
/// request, and the connection to write to, which is closed afterwards.
pub fn serve(
    answer: impl Fn(usize, &Received, &mut TcpStream) + Send + Sync + 'static,
) -> std::io::Result<Server> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let received = Arc::new(Mutex::new(Vec::new()));
    let stopping = Arc::new(AtomicBool::new(false));
    let server = Server { address, received: received.clone(), stopping: stopping.clone() };
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            if stopping.load(Ordering::SeqCst) {
                return;
            }
            let Ok(mut connection) = connection else { continue };
            let (answer, received) = (answer.clone(), received.clone());
            std::thread::spawn(move || {
                let Some(request) = receive(&connection) else { return };
                let number = {
                    let mut all = received.lock().unwrap_or_else(PoisonError::into_inner);
                    all.push(request.clone());
                    all.len() - 1
                };
                answer(number, &request, &mut connection);
            });
        }
    });
    Ok(server)
}

impl Server {
    /// A URL on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Everything asked so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

/// Writes a whole answer.
pub fn respond(connection: &mut TcpStream, status: &str, headers: &[(&str, &str)], body: &str) {
    let mut text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let _ = connection.write_all(format!("{text}\r\n{body}").as_bytes());
}

/// Answers nothing until the other side has left.
pub fn hang(connection: &mut TcpStream) {
    let _ = connection.read_to_end(&mut Vec::new());
}

fn receive(connection: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(connection);
    let mut next = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        Some(line.trim_end().to_owned())
    };
    let mut request = Received { line: next()?, ..Received::default() };
    loop {
        let line = next()?;
        let Some((name, value)) = line.split_once(':') else { break };
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = request.header("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Some(request)
}
