//! Guests and servers that mean harm to whoever waits between them: floods, silence, drips, bodies without
//! end, redirects to where credentials are.

use super::guest::{Capability, FOREVER, Guest, scores};
use super::*;
use std::io::Write;
use std::sync::mpsc;
use std::time::Instant;
use whet_http::Egress;
use whet_http::testing::{Server, hang, respond, serve};
use whet_judge::{Endpoint, Judges, Memory, address};
use whet_plugin_host::{Cancel, Services};

/// What the guest saw, as its score: the status's low byte, or 100 and the kind of the error.
const SEEN: &str = "(f64.convert_i32_u (i32.add
    (i32.mul (i32.load8_u (i32.const 8192)) (i32.const 100)) (i32.load8_u (i32.const 8196))))";
const OK: f64 = 200.0;
const DENIED: f64 = 100.0;
const TIMED_OUT: f64 = 101.0;
const TOO_LARGE: f64 = 102.0;
const FAILED: f64 = 103.0;
const JUDGE_TIMED_OUT: f64 = 102.0;
const JUDGE_UPSTREAM: f64 = 103.0;

/// A guest that fetches `url` with GET, then does `then`.
fn fetching(url: &str, then: &str) -> Guest {
    let fetch = format!(
        "(call $fetch (i32.const 9200) (i32.const 3) (i32.const 9300) (i32.const {}) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 8192))",
        url.len()
    );
    // Answers of the host lie behind everything else, where nothing is overwritten but the last answer.
    let guest = Guest {
        main: format!(r#"(data (i32.const 9200) "GET") (data (i32.const 9300) "{url}")"#),
        ..Guest::scoring(then.replace("FETCH", &fetch))
    };
    guest.with(Capability::Http)
}

/// A guest that asks its judge one question, then does `then`.
fn chatting(then: &str) -> Guest {
    let chat =
        "(call $chat (i32.const 9000) (i32.const 1) (i32.const 10) (f32.const 0) (i32.const 0) (i32.const 0)
        (i32.const 0) (i32.const 8192))";
    let zeros = r"\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00";
    let message = r"\01\00\00\00\50\23\00\00\01\00\00\00".to_owned() + zeros;
    // One text of three bytes at 9104.
    let part = r"\00\00\00\00\90\23\00\00\03\00\00\00";
    let guest = Guest {
        main: format!(
            r#"(data (i32.const 9000) "{message}") (data (i32.const 9040) "{part}") (data (i32.const 9104) "2+2")"#
        ),
        ..Guest::scoring(then.replace("CHAT", chat))
    };
    guest.with(Capability::Judge)
}

/// A host that reaches servers, and the terms on which a guest reaches one.
fn reaching(server: &Server) -> (Host, Use) {
    let services = Services { http: Some(Arc::new(Egress)), judge: None };
    (asking_host(services, Cancel::default()), granted(&format!("http:{}", server.address)))
}

fn asking_host(services: Services, cancel: Cancel) -> Host {
    let tick = Duration::from_millis(5);
    Host::new(HostOptions { tick, instances: POOL, services, cancel, ..HostOptions::default() })
}

fn judged_by(server: &Server, change: impl FnOnce(&mut Endpoint)) -> Host {
    let mut endpoint = Endpoint::new(address(&server.url("/v1")).unwrap(), "judge", None);
    change(&mut endpoint);
    let judges = Judges::new(vec![endpoint], Memory::Fresh).unwrap();
    asking_host(Services { judge: Some(Arc::new(judges)), http: None }, Cancel::default())
}

/// What a guest that fetches `/` of the server saw, within limits.
fn seen(server: &Server, change: impl FnOnce(&mut Limits)) -> f64 {
    let (host, usage) = reaching(server);
    let guest = fetching(&server.url("/"), &format!("FETCH {}", scores(SEEN)));
    let outcomes = load(&host, &guest, &limited(usage, change)).score(&group("g", &["a"])).unwrap();
    rewards(&outcomes)[0].unwrap_or_else(|| panic!("{outcomes:?}"))
}

fn hasty_wait(limits: &mut Limits) {
    limits.wait = Duration::from_millis(300);
}

pub fn cases() -> Vec<Case> {
    vec![
        scene(60, "a server that answers is heard", |_| {
            let server = serve(|_, _, c| respond(c, "200 OK", &[], "fine")).unwrap();
            assert_eq!(seen(&server, |_| ()), OK);
            assert_eq!(server.received()[0].line, "GET / HTTP/1.1");
        }),
        scene(60, "a host that was not granted is not asked", |_| {
            let (granted, other) = (
                serve(|_, _, c| respond(c, "200 OK", &[], "")).unwrap(),
                serve(|_, _, c| respond(c, "200 OK", &[], "")).unwrap(),
            );
            let (host, usage) = reaching(&granted);
            let guest = fetching(&other.url("/"), &format!("FETCH {}", scores(SEEN)));
            let plugin = load(&host, &guest, &usage);
            assert_eq!(rewards(&plugin.score(&group("g", &["a"])).unwrap()), [Some(DENIED)]);
            assert!(other.received().is_empty() && granted.received().is_empty());
        }),
        scene(61, "a server that hangs costs the guest its request, and the guest goes on", |_| {
            let server = serve(|_, _, c| hang(c)).unwrap();
            assert_eq!(seen(&server, hasty_wait), TIMED_OUT);
        }),
        scene(61, "a server that drips costs no more than the time to wait", |_| {
            let server = serve(|_, _, c| {
                let _ = c.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
                while c.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            })
            .unwrap();
            assert_eq!(seen(&server, hasty_wait), TIMED_OUT);
        }),
        scene(61, "all requests of a call share the time to wait", |_| {
            let server = serve(|_, _, c| hang(c)).unwrap();
            let (host, usage) = reaching(&server);
            let again = "(local.set $a (i32.const 50)) (loop $more FETCH
                (br_if $more (local.tee $a (i32.sub (local.get $a) (i32.const 1)))))";
            let guest = fetching(&server.url("/"), &format!("{again} {}", scores(SEEN)));
            let plugin = load(&host, &guest, &limited(usage, hasty_wait));
            assert_eq!(rewards(&plugin.score(&group("g", &["a"])).unwrap()), [Some(TIMED_OUT)]);
            // The first waited for all of it.
            assert_eq!(server.received().len(), 1);
        }),
        scene(62, "a body without end is cut", |_| {
            let server = serve(|_, _, c| {
                let _ = c.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                while c.write_all(&[b'x'; 4096]).is_ok() {}
            })
            .unwrap();
            assert_eq!(seen(&server, |limits| limits.response_bytes = 10_000), TOO_LARGE);
        }),
        scene(62, "bodies count against what a call may carry", |_| {
            let server = serve(|_, _, c| respond(c, "200 OK", &[], &"x".repeat(1000))).unwrap();
            let (host, usage) = reaching(&server);
            let usage = limited(usage, |limits| limits.http_bytes = 1500);
            let guest = fetching(&server.url("/"), &format!("FETCH FETCH {}", scores(SEEN)));
            let plugin = load(&host, &guest, &usage);
            assert_eq!(rewards(&plugin.score(&group("g", &["a"])).unwrap()), [Some(TOO_LARGE)]);
        }),
        scene(63, "a redirect to where credentials are is an answer, not a way", |_| {
            let location = ("Location", "http://169.254.169.254/latest/meta-data/");
            let server = serve(move |_, _, c| respond(c, "302 Found", &[location], "")).unwrap();
            assert_eq!(seen(&server, |_| ()), f64::from(302 & 0xff));
            assert_eq!(server.received().len(), 1);
        }),
        scene(63, "what is not HTTP is a failure that the guest sees", |_| {
            let server = serve(|_, _, c| drop(c.write_all(b"\0\0\0garbage\r\n\r\n"))).unwrap();
            assert_eq!(seen(&server, |_| ()), FAILED);
        }),
        scene(64, "a flood of requests ends at the quota, and the server saw no more", |_| {
            let server = serve(|_, _, c| respond(c, "200 OK", &[], "")).unwrap();
            let (host, usage) = reaching(&server);
            let guest = fetching(&server.url("/"), "(loop $more FETCH (br $more)) unreachable");
            let plugin = load(&host, &guest, &limited(usage, |limits| limits.requests = 5));
            assert_eq!(plugin.score_once(&group("g", &["a"])).unwrap_err().kind(), "host-quota");
            assert_eq!(server.received().len(), 5);
        }),
        scene(65, "waiting is not the guest's own time", |_| {
            let own = Duration::from_secs(2);
            let server = serve(move |_, _, c| {
                std::thread::sleep(own + Duration::from_millis(500));
                respond(c, "200 OK", &[], "");
            })
            .unwrap();
            assert_eq!(seen(&server, |limits| limits.time = own), OK);
        }),
        scene(65, "a guest that loops after it waited is stopped all the same", |_| {
            let server = serve(|_, _, c| respond(c, "200 OK", &[], "")).unwrap();
            let (host, usage) = reaching(&server);
            let guest = fetching(&server.url("/"), &format!("FETCH {FOREVER}"));
            let plugin = load(&host, &guest, &limited(usage, |limits| limits.time = hasty().limits.time));
            assert_eq!(plugin.score_once(&group("g", &["a"])).unwrap_err().kind(), "cpu-timeout");
        }),
        scene(66, "a cancel ends those who wait and those who compute", cancelled),
        scene(67, "a judge that hangs costs the guest its question, and the guest goes on", |_| {
            let server = serve(|_, _, c| hang(c)).unwrap();
            let guest = chatting(&format!("CHAT {}", scores(SEEN)));
            let plugin = load(&judged_by(&server, |_| ()), &guest, &limited(granted("judge"), hasty_wait));
            assert_eq!(rewards(&plugin.score(&group("g", &["a"])).unwrap()), [Some(JUDGE_TIMED_OUT)]);
        }),
        scene(67, "a judge that answers nonsense is an error and no reply", |_| {
            let server = serve(|_, _, c| respond(c, "200 OK", &[], r#"{"choices": "none"}"#)).unwrap();
            let guest = chatting(&format!("CHAT {}", scores(SEEN)));
            let host = judged_by(&server, |endpoint| endpoint.retries = 0);
            let plugin = load(&host, &guest, &granted("judge"));
            assert_eq!(rewards(&plugin.score(&group("g", &["a"])).unwrap()), [Some(JUDGE_UPSTREAM)]);
        }),
        scene(68, "a flood of the same question reaches the judge once", |_| {
            let reply = r#"{"choices": [{"message": {"content": "4"}}]}"#;
            let server = serve(move |_, _, c| respond(c, "200 OK", &[], reply)).unwrap();
            let guest = chatting("(loop $more CHAT (br $more)) unreachable");
            let usage = limited(granted("judge"), |limits| limits.requests = 50);
            let plugin = load(&judged_by(&server, |_| ()), &guest, &usage);
            assert_eq!(plugin.score_once(&group("g", &["a"])).unwrap_err().kind(), "host-quota");
            assert_eq!(server.received().len(), 1);
        }),
        scene(69, "a route that was not granted is denied before anybody is asked", |_| {
            let server = serve(|_, _, c| hang(c)).unwrap();
            let guest = chatting(&format!("CHAT {}", scores(SEEN)));
            // Asked without a name, so the only route that was granted: one that is not there.
            let plugin = load(&judged_by(&server, |_| ()), &guest, &granted("judge:other"));
            assert_eq!(rewards(&plugin.score(&group("g", &["a"])).unwrap()), [Some(DENIED)]);
            assert!(server.received().is_empty());
        }),
        scene(70, "one sample's silent server costs its neighbours nothing", |_| {
            // The first request hangs, whichever sample's it is; the others are answered.
            let server = serve(|number, _, c| match number {
                0 => hang(c),
                _ => respond(c, "200 OK", &[], ""),
            })
            .unwrap();
            let (host, usage) = reaching(&server);
            let guest = fetching(&server.url("/"), &format!("FETCH {}", scores(SEEN)));
            let plugin = load(&host, &guest, &limited(usage, |limits| limits.wait = Duration::from_secs(2)));
            let mut seen = rewards(&plugin.score(&group("g", &["a", "b", "c", "d"])).unwrap());
            seen.sort_by(|a, b| a.partial_cmp(b).unwrap());
            assert_eq!(seen, [Some(TIMED_OUT), Some(OK), Some(OK), Some(OK)]);
        }),
    ]
}

fn cancelled(_: &Host) {
    let (begun, asking) = mpsc::channel();
    let server = serve(move |_, _, c| {
        let _ = begun.send(());
        hang(c);
    })
    .unwrap();
    let cancel = Cancel::default();
    let services = Services { http: Some(Arc::new(Egress)), judge: None };
    let host = asking_host(services, cancel.clone());
    let usage = granted(&format!("http:{}", server.address));
    let usage = limited(usage, |limits| limits.wait = Duration::from_secs(100_000));
    let waits = load(&host, &fetching(&server.url("/"), &format!("FETCH {FOREVER}")), &usage);
    let computes = load(&host, &Guest::scoring(FOREVER), &patient());
    let began = Instant::now();
    std::thread::scope(|scope| {
        let calls = [&waits, &computes].map(|plugin| scope.spawn(|| plugin.score_once(&group("g", &["a"]))));
        asking.recv().unwrap();
        cancel.pull();
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap_err().kind(), "cancelled");
        }
    });
    assert!(began.elapsed() < patient().limits.time, "ended by a deadline");
}

#[test]
fn nobody_waits_longer_for_others_than_the_limits_say() {
    withstand(cases());
}
