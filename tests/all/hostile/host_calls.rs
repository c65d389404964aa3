//! Guests that use what the host does for them as a weapon: floods, large texts, tricks with names.

use super::guest::{Capability, FOREVER, Guest, LOGGED, scores};
use super::*;
use std::sync::Mutex;
use whet_plugin_host::LogLine;

const LINE: &str = "(call $log (i32.const 1) (i32.const 32) (i32.const 25))";

/// Calls `code` for ever.
fn flood(code: &str) -> Guest {
    Guest::scoring(format!("(loop $more {code} (br $more)) unreachable"))
}

/// A request to `http`, whose denial the guest reports as a lack of service, in the host's words.
const FETCH: &str = "
    (call $fetch (i32.const 0) (i32.const 0) (i32.const 16) (i32.const 7) (i32.const 0) (i32.const 0)
        (i32.const 0) (i32.const 0) (i32.const 8192))
    (i32.store (i32.const 1040) (i32.load8_u (i32.const 8192)))
    (i32.store (i32.const 1044) (i32.const 1))
    (i32.store (i32.const 1048) (i32.load (i32.const 8200)))
    (i32.store (i32.const 1052) (i32.load (i32.const 8204)))
    (i32.const 1040)";

const CHAT: &str = "
    (call $chat (i32.const 0) (i32.const 0) (i32.const 10) (f32.const nan) (i32.const 0) (i32.const 0)
        (i32.const 0) (i32.const 8192))
    (i32.store (i32.const 1040) (i32.load8_u (i32.const 8192)))
    (i32.store (i32.const 1044) (i32.const 1))
    (i32.store (i32.const 1048) (i32.load (i32.const 8200)))
    (i32.store (i32.const 1052) (i32.load (i32.const 8204)))
    (i32.const 1040)";

fn upstream(number: u8, says: &'static str, guest: Guest, usage: Use) -> Case {
    let attribution = Attribution::Upstream;
    Case { number, says, attack: Attack::Fails { guest, usage, kind: "unavailable", attribution } }
}

/// A number of calls that a flood reaches at once.
fn few(grant: &str) -> Use {
    limited(granted(grant), |limits| limits.host_calls = 10_000)
}

pub fn cases() -> Vec<Case> {
    let roomy = || limited(granted("http:api.example.com"), |limits| limits.memory = 256 << 20);
    let score = scores("(f64.const 1)");
    vec![
        fails(
            20,
            "a text of a hundred megabytes does not reach the log",
            Guest {
                memory: "1600",
                ..Guest::scoring(format!("(call $log (i32.const 1) (i32.const 65536) (i32.const 100000000)) {score}"))
            }
            .with(Capability::Log),
            roomy(),
            "host-quota",
        ),
        fails(
            20,
            "a value of fifty megabytes does not reach the store",
            Guest {
                memory: "1600",
                ..Guest::scoring(format!(
                    "(call $set (i32.const 16) (i32.const 7) (i32.const 65536) (i32.const 50000000) (i32.const 8192)) {score}"
                ))
            }
            .with(Capability::Store),
            limited(granted("store"), |limits| limits.memory = 256 << 20),
            "host-quota",
        ),
        fails(
            21,
            "a million empty headers do not reach the host",
            Guest {
                memory: "400",
                ..Guest::scoring(format!(
                    "(call $fetch (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                        (i32.const 65536) (i32.const 1000000) (i32.const 0) (i32.const 0) (i32.const 8192)) {score}"
                ))
            }
            .with(Capability::Http),
            roomy(),
            "host-quota",
        ),
        scene(31, "a flood of log lines is cut and counted, and the call goes on", log_flood),
        scene(31, "lines of a megabyte are cut", long_lines),
        scene(31, "terminal codes in a log line come out harmless", |_| {
            let lines = logged(&Guest::scoring(format!("{LINE} {}", scores("(f64.const 1)"))), patient());
            assert_eq!(lines, ["panicked\\nat \\u{1b}[31mguest.rs"]);
        }),
        fails(
            32,
            "a flood of random numbers ends at the quota",
            flood("(drop (call $random))").with(Capability::Random),
            few("random"),
            "host-quota",
        ),
        fails(
            32,
            "a flood of reads of the store ends at the quota",
            flood("(call $get (i32.const 16) (i32.const 7) (i32.const 8192))").with(Capability::Store),
            few("store"),
            "host-quota",
        ),
        fails(
            32,
            "a flood of requests ends at the quota",
            flood(&format!("{FETCH} drop"))
                .forgetful()
                .with(Capability::Http),
            limited(granted("http:api.example.com"), |limits| limits.requests = 100),
            "host-quota",
        ),
        fails(
            32,
            "a flood of questions to the judge ends at the quota",
            flood(&format!("{CHAT} drop"))
                .forgetful()
                .with(Capability::Judge),
            limited(granted("judge"), |limits| limits.requests = 100),
            "host-quota",
        ),
        scene(32, "a flood of values fills the plugin's own store and no other", full_store),
        upstream(
            33,
            "a request is denied, in words that the guest can pass on",
            Guest::scoring(FETCH).with(Capability::Http),
            granted("http:api.example.com"),
        ),
        upstream(
            33,
            "a question to a judge that is not there is denied",
            Guest::scoring(CHAT).with(Capability::Judge),
            granted("judge"),
        ),
        refused(
            33,
            "a guest that asks for requests which the recipe does not grant is refused",
            Guest::scoring(FETCH).with(Capability::Http).build(),
            granted("judge"),
            "not-granted",
        ),
        scene(33, "a grant that names more than one host, or hides one, is not a grant", |_| {
            let tricks = [
                "http:*",
                "http:*.example.com",
                "http:user@example.com",
                "http:allowed.com@evil.com",
                "http:example.com/path",
                "http:example.com?q",
                "http:example.com#",
                "http:[::ffff:127.0.0.1]",
                "http:fd00:ec2::254",
                "http:a b",
                "http:exämple.com",
                "http://example.com",
                "http:example.com:0x50",
                "http:example.com:70000",
                "http:.example.com",
                "http:example..com",
            ];
            for trick in tricks {
                assert!(Grants::parse([trick]).is_err(), "{trick}");
            }
        }),
        refused(
            33,
            "a guest that only wants to look whether it may make requests is refused",
            Guest::reward().with(Capability::Http).build(),
            patient(),
            "not-granted",
        ),
        scene(35, "a caller that does not wait for its call leaves no mess", abandoned_caller),
    ]
}

/// The lines that one score of the guest wrote.
fn logged(guest: &Guest, usage: Use) -> Vec<String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    let sink = move |line: &LogLine<'_>| seen.lock().unwrap().push(line.text.to_owned());
    let host =
        Host::new(HostOptions { log: Some(Arc::new(sink)), instances: POOL, ..HostOptions::default() });
    let plugin = load(&host, &guest.clone().with(Capability::Log), &usage);
    assert_eq!(rewards(&plugin.score(&group("g", &["a"])).unwrap()), [Some(1.0)]);
    let lines = lines.lock().unwrap().clone();
    assert_eq!(plugin.stats().log_lines, lines.len() as u64);
    lines
}

/// Code that runs `code` `n` times and scores 1.
fn times(n: u32, code: &str) -> Guest {
    Guest::scoring(format!(
        "(local.set $a (i32.const {n}))
         (loop $more {code} (br_if $more (local.tee $a (i32.sub (local.get $a) (i32.const 1)))))
         {}",
        scores("(f64.const 1)")
    ))
}

fn log_flood(host: &Host) {
    let limits = patient().limits;
    let lines = logged(&times(100_000, LINE), patient());
    assert_eq!(lines.len(), limits.log_lines);
    let guest = times(100_000, LINE).with(Capability::Log);
    let plugin = load(host, &guest, &patient());
    plugin.score(&group("g", &["a"])).unwrap();
    let stats = plugin.stats();
    assert_eq!(stats.log_lines + stats.log_dropped, 100_000);
    assert_eq!(stats.log_lines, limits.log_lines as u64);
    assert!(LOGGED.len() * limits.log_lines < limits.log_bytes, "lines, not bytes, were the limit");
}

fn long_lines(_: &Host) {
    let line = "(call $log (i32.const 1) (i32.const 65536) (i32.const 1000000))";
    let guest = Guest { memory: "20", ..times(100, line) };
    let usage = limited(patient(), |limits| limits.log_bytes = 50_000);
    let lines = logged(&guest, usage);
    let bytes: usize = lines.iter().map(String::len).sum();
    assert!(!lines.is_empty() && bytes < 51_000, "{} lines, {bytes} bytes", lines.len());
    assert!(lines.iter().all(|line| line.len() < 5_000 && !line.contains(char::is_control)));
}

fn full_store(host: &Host) {
    // Sets keys of two bytes, each one's own, to 32 KiB; scores by how many were kept.
    let filling = "
        (local.set $a (i32.const 200))
        (loop $more
            (i32.store16 (i32.const 8192) (i32.add (i32.const 0x3030) (i32.and (local.get $a) (i32.const 63))))
            (i32.store8 (i32.const 8193) (i32.add (i32.const 48) (i32.shr_u (local.get $a) (i32.const 6))))
            (call $set (i32.const 8192) (i32.const 2) (i32.const 65536) (i32.const 32768) (i32.const 9000))
            (if (i32.eqz (i32.load8_u (i32.const 9000)))
                (then (local.set $b (i32.add (local.get $b) (i32.const 1)))))
            (br_if $more (local.tee $a (i32.sub (local.get $a) (i32.const 1)))))
        (call $grades (local.get $n) (f64.convert_i32_u (local.get $b)))";
    let kept = |name| {
        let guest = Guest { name, ..Guest::scoring(filling) }.with(Capability::Store);
        let plugin = load(host, &guest, &granted("store"));
        rewards(&plugin.score(&group("g", &["a"])).unwrap())[0].unwrap()
    };
    let quota = granted("store").limits.store_bytes as f64;
    let first = kept("first");
    assert!(first * 32768.0 <= quota && (first + 2.0) * 32768.0 > quota, "{first}");
    assert_eq!(kept("second"), first, "another plugin's store was not touched");
}

/// A call cannot be taken back; it ends by its deadline, and its instance is given back.
fn abandoned_caller(host: &Host) {
    let plugin = Arc::new(load(host, &Guest::scoring(FOREVER), &hasty()));
    let abandoned: Vec<_> = (0..4)
        .map(|_| {
            let plugin = plugin.clone();
            std::thread::spawn(move || plugin.score_once(&group("g", &["a"])).unwrap_err())
        })
        .collect();
    drop(plugin);
    for caller in abandoned {
        assert_eq!(caller.join().unwrap().kind(), "cpu-timeout");
    }
}

impl Guest {
    /// Puts every answer of the host where the one before was, so that a flood does not end for
    /// lack of memory.
    fn forgetful(self) -> Self {
        Guest { realloc: "(i32.const 16384)".into(), ..self }
    }
}

#[test]
fn guests_get_no_more_from_the_host_than_their_share() {
    withstand(cases());
}
