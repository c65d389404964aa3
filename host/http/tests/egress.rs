//! Strangers' requests against a server of our own: what is allowed, what is not, and that every wait ends.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use whet_capability::{AllowedHost, Cancel, Fetch, HostCall, HttpError, HttpRequest, HttpResponse};
use whet_http::Egress;
use whet_http::testing::{Server, hang, respond, serve};

/// No machine misses it.
const PATIENT: Duration = Duration::from_secs(100);
/// Somebody who waits for what never comes has had enough.
const HASTY: Duration = Duration::from_millis(300);

fn get(url: &str) -> HttpRequest {
    HttpRequest { method: "GET".into(), url: url.into(), headers: Vec::new(), body: Vec::new() }
}

fn fetch(request: &HttpRequest, allowed: &[&str], patience: Duration) -> Result<HttpResponse, HttpError> {
    let allowed: Vec<AllowedHost> = allowed.iter().map(|host| host.parse().unwrap()).collect();
    let cancel = Cancel::default();
    let call = HostCall { plugin: "p", sample: None, deadline: Instant::now() + patience, cancel: &cancel };
    Egress.fetch(request, &allowed, 1000, &call)
}

fn echo() -> Server {
    serve(|_, request, connection| respond(connection, "200 OK", &[("X-Line", &request.line)], &request.body))
        .unwrap()
}

#[test]
fn a_request_reaches_the_host_that_was_granted_and_its_answer_comes_back() {
    let server = echo();
    let request = HttpRequest {
        method: "POST".into(),
        headers: vec![("X-Custom".into(), "a b".into())],
        body: b"hello".to_vec(),
        ..get(&server.url("/path?q=1"))
    };
    let answer = fetch(&request, &[&server.address.to_string()], PATIENT).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"hello".as_slice()));
    assert!(answer.headers.contains(&("x-line".into(), "POST /path?q=1 HTTP/1.1".into())), "{answer:?}");
    assert!(!answer.headers.iter().any(|(name, _)| name == "connection"));
    let received = &server.received()[0];
    assert_eq!(received.header("x-custom"), Some("a b"));
    assert_eq!(received.header("host"), Some(server.address.to_string().as_str()));
}

#[test]
fn an_error_of_the_server_is_an_answer_like_any_other() {
    let server = serve(|_, _, c| respond(c, "503 Busy", &[], "later")).unwrap();
    let answer = fetch(&get(&server.url("/")), &[&server.address.to_string()], PATIENT).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (503, b"later".as_slice()));
}

#[test]
fn hosts_and_ports_that_were_not_granted_are_denied_and_never_asked() {
    let server = echo();
    let port = server.address.port();
    for (url, allowed) in [
        (server.url("/"), vec!["api.example.com"]),
        (server.url("/"), vec!["127.0.0.1"]),
        (server.url("/"), vec!["127.0.0.1:1"]),
        (server.url("/"), vec![]),
        (format!("http://localhost:{port}/"), vec!["127.0.0.1"]),
        (format!("http://127.0.0.1.nip.io:{port}/"), vec!["127.0.0.1"]),
        (format!("http://api.example.com@127.0.0.1:{port}/"), vec!["api.example.com"]),
        ("file:///etc/passwd".into(), vec!["api.example.com"]),
        ("ftp://api.example.com/".into(), vec!["api.example.com"]),
        ("//api.example.com".into(), vec!["api.example.com"]),
        ("http:///".into(), vec!["api.example.com"]),
    ] {
        let refused = fetch(&get(&url), &allowed, PATIENT);
        assert!(matches!(refused, Err(HttpError::Denied(_))), "{url}: {refused:?}");
    }
    assert_eq!(server.received(), []);
}

#[test]
fn localhost_by_its_name_and_addresses_in_any_spelling_lead_to_what_was_granted() {
    let server = echo();
    let port = server.address.port();
    let by_name = fetch(&get(&format!("http://LOCALHOST:{port}/")), &[&format!("localhost:{port}")], PATIENT);
    assert_eq!(by_name.map(|r| r.status), Ok(200));
    // The URL's own rules read these as 127.0.0.1; the grant is held against what they lead to.
    for spelling in ["2130706433", "0x7f.0.0.1", "127.1"] {
        let answer =
            fetch(&get(&format!("http://{spelling}:{port}/")), &[&format!("127.0.0.1:{port}")], PATIENT);
        assert_eq!(answer.map(|r| r.status), Ok(200), "{spelling}");
    }
}

#[test]
fn addresses_that_hand_out_credentials_are_closed_even_to_those_who_name_them() {
    for host in ["169.254.169.254", "[fd00:ec2::254]", "0.0.0.0", "[64:ff9b::a9fe:a9fe]"] {
        for grant in [host.parse::<AllowedHost>().unwrap(), host.parse::<AllowedHost>().unwrap().local()] {
            let cancel = Cancel::default();
            let call =
                HostCall { plugin: "p", sample: None, deadline: Instant::now() + PATIENT, cancel: &cancel };
            let answer =
                Egress.fetch(&get(&format!("http://{host}/latest/meta-data")), &[grant], 1000, &call);
            assert!(matches!(answer, Err(HttpError::Denied(_))), "{host}: {answer:?}");
        }
    }
}

#[test]
fn a_redirect_is_an_answer_and_nobody_follows_it() {
    let metadata = ("Location", "http://169.254.169.254/latest/meta-data");
    let server = serve(move |_, _, c| respond(c, "302 Found", &[metadata], "")).unwrap();
    let answer = fetch(&get(&server.url("/")), &[&server.address.to_string()], PATIENT).unwrap();
    assert_eq!(answer.status, 302);
    assert!(answer.headers.iter().any(|(name, _)| name == "location"));
    assert_eq!(server.received().len(), 1);
}

#[test]
fn headers_that_frame_or_route_a_request_are_denied() {
    let server = echo();
    let tricks = [
        ("Host", "evil.example"),
        ("host", "evil.example"),
        ("Connection", "keep-alive"),
        ("Content-Length", "3"),
        ("Transfer-Encoding", "chunked"),
        ("Proxy-Authorization", "x"),
        ("X-A", "b\r\nX-Injected: 1"),
        ("X-A", "b\nc"),
        ("X-A\r\nX-Injected", "1"),
        ("X A", "1"),
        ("", "1"),
        ("X-A", "\0"),
        ("X-A", "é"),
    ];
    for (name, value) in tricks {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let request = HttpRequest { headers, ..get(&server.url("/")) };
        let answer = fetch(&request, &[&server.address.to_string()], PATIENT);
        assert!(matches!(answer, Err(HttpError::Denied(_))), "{name:?}: {value:?}: {answer:?}");
    }
    let many = HttpRequest { headers: vec![("X-A".into(), "b".into()); 65], ..get(&server.url("/")) };
    assert_eq!(fetch(&many, &[&server.address.to_string()], PATIENT), Err(HttpError::TooLarge));
    for method in ["CONNECT", "TRACE", "get", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET", ""] {
        let request = HttpRequest { method: method.into(), ..get(&server.url("/")) };
        let answer = fetch(&request, &[&server.address.to_string()], PATIENT);
        assert!(matches!(answer, Err(HttpError::Denied(_))), "{method:?}: {answer:?}");
    }
    assert_eq!(server.received(), []);
}

#[test]
fn an_answer_that_does_not_end_is_cut_at_its_cap() {
    let server = serve(|_, _, c| {
        let _ = c.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while c.write_all(&[b'x'; 4096]).is_ok() {}
    })
    .unwrap();
    let answer = fetch(&get(&server.url("/")), &[&server.address.to_string()], PATIENT);
    assert_eq!(answer, Err(HttpError::TooLarge));
}

#[test]
fn headers_that_do_not_end_are_no_answer() {
    let server = serve(|_, _, c| {
        let _ = c.write_all(b"HTTP/1.1 200 OK\r\n");
        while c.write_all(b"X-More: and more\r\n").is_ok() {}
    })
    .unwrap();
    let answer = fetch(&get(&server.url("/")), &[&server.address.to_string()], PATIENT);
    assert!(matches!(answer, Err(HttpError::Failed(_))), "{answer:?}");
}

#[test]
fn servers_that_hang_drip_or_never_accept_are_left_at_the_deadline() {
    let silent = serve(|_, _, c| hang(c)).unwrap();
    let dripping = serve(|_, _, c| {
        let _ = c.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        while c.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    })
    .unwrap();
    let dripping_headers = serve(|_, _, c| {
        while c.write_all(b"H").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    })
    .unwrap();
    for server in [&silent, &dripping, &dripping_headers] {
        let answer = fetch(&get(&server.url("/")), &[&server.address.to_string()], HASTY);
        assert_eq!(answer, Err(HttpError::TimedOut));
    }
    // The handshake of https waits for a server that says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap().to_string();
    assert_eq!(fetch(&get(&format!("https://{address}/")), &[&address], HASTY), Err(HttpError::TimedOut));
}

#[test]
fn what_is_not_http_and_ports_where_nobody_listens_are_failures_that_name_no_url() {
    let babbling = serve(|_, _, c| {
        let _ = c.write_all(b"SSH-2.0-babble\r\n\r\n");
    })
    .unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [babbling.address, closed] {
        let answer = fetch(&get(&format!("http://{address}/?key=secret")), &[&address.to_string()], PATIENT);
        let Err(HttpError::Failed(why)) = answer else { panic!("{answer:?}") };
        assert!(!why.contains("secret") && !why.chars().any(char::is_control), "{why}");
    }
}

#[test]
fn https_is_not_taken_from_whoever_answers() {
    // A server without a certificate that anyone vouches for: here, without TLS at all.
    let plain = echo();
    let address = plain.address.to_string();
    let answer = fetch(&get(&format!("https://{address}/")), &[&address], PATIENT);
    assert!(matches!(answer, Err(HttpError::Failed(_))), "{answer:?}");
}

#[test]
fn a_cancel_ends_the_wait() {
    let (asked, begun) = mpsc::channel();
    let server = serve(move |_, _, c| {
        let _ = asked.send(());
        hang(c);
    })
    .unwrap();
    let cancel = Cancel::default();
    let waiting = std::thread::spawn({
        let (cancel, request, host) = (cancel.clone(), get(&server.url("/")), server.address.to_string());
        move || {
            let deadline = Instant::now() + Duration::from_secs(100_000);
            let call = HostCall { plugin: "p", sample: None, deadline, cancel: &cancel };
            Egress.fetch(&request, &[host.parse().unwrap()], 1000, &call)
        }
    });
    begun.recv().unwrap();
    cancel.pull();
    assert_eq!(waiting.join().unwrap(), Err(HttpError::TimedOut));
}
