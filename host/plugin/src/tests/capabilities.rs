//! What guests may ask of the host, and how much of it.

use super::guests::{Parts, RANDOM, STORE, group, hasty, scoring};
use crate::{Grants, Host, HostOptions, Limits, LogLine, Use};
use std::sync::{Arc, Mutex};
use whet_trajectory::Outcome;

fn granted(grant: &str) -> Use {
    Use { grants: Grants::parse([grant]).unwrap(), ..Use::default() }
}

fn first(outcomes: &[Outcome]) -> f64 {
    outcomes[0].reward(&[]).unwrap()
}

#[test]
fn log_lines_are_escaped_bounded_and_counted() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    let sink = move |line: &LogLine<'_>| {
        seen.lock().unwrap().push(format!(
            "{} {} {} {}",
            line.plugin,
            line.subject,
            line.level.as_str(),
            line.text
        ));
    };
    let host = Host::new(HostOptions { log: Some(Arc::new(sink)), ..HostOptions::default() });
    let limits = Limits { log_lines: 10, ..Limits::default() };
    let plugin = host.reward(&Parts::default().build(), &Use { limits, ..Use::default() }).unwrap();
    plugin.score(&group(&["F"])).unwrap();
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 10);
    assert_eq!(lines[0], "guest g info panicked\\nat \\u{1b}[31mguest.rs");
    assert_eq!((plugin.stats().log_lines, plugin.stats().log_dropped), (10, 190));
}

#[test]
fn log_text_is_bounded_too() {
    let limits = Limits { log_bytes: 100, ..Limits::default() };
    let plugin = Parts::default().reward(&Use { limits, ..Use::default() });
    plugin.score(&group(&["F"])).unwrap();
    assert!(plugin.stats().log_lines < 10 && plugin.stats().log_dropped > 190, "{:?}", plugin.stats());
}

#[test]
fn random_numbers_are_the_same_on_replay_and_differ_by_seed_and_group() {
    let body = scoring("(f64.convert_i64_u (i64.shr_u (call $random) (i64.const 12)))");
    let parts = Parts { imports: RANDOM, body: &body, ..Parts::default() };
    let plugin = parts.reward(&granted("random"));
    let other_seed = parts.reward(&Use { seed: 1, ..granted("random") });
    let mut other_group = group(&["a"]);
    other_group.id = "h".into();
    let number = first(&plugin.score(&group(&["a"])).unwrap());
    assert_eq!(number, first(&plugin.score(&group(&["a"])).unwrap()));
    assert_ne!(number, first(&other_seed.score(&group(&["a"])).unwrap()));
    assert_ne!(number, first(&plugin.score(&other_group).unwrap()));
    assert_eq!(plugin.stats().random_calls, 3);
}

#[test]
fn a_flood_of_host_calls_ends_at_the_quota() {
    let body = scoring("(block (result f64) (loop $l (drop (call $random)) (br $l)) (f64.const 0))");
    let limits = Limits { host_calls: 1000, ..Limits::default() };
    let plugin = Parts { imports: RANDOM, body: &body, ..Parts::default() }
        .reward(&Use { limits, ..granted("random") });
    let error = plugin.score_once(&group(&["a"])).unwrap_err();
    assert_eq!(error.kind(), "host-quota", "{error}");
    assert_eq!(plugin.stats().random_calls, 1001);
}

#[test]
fn a_large_text_to_the_host_ends_at_the_boundary_quota() {
    let body = scoring(
        "(block (result f64)
            (local.set $a (call $new (i32.const 9000000)))
            (call $log (i32.const 0) (local.get $a) (i32.const 9000000)) (f64.const 0))",
    );
    let plugin = Parts { body: &body, ..Parts::default() }.reward(&hasty());
    let error = plugin.score_once(&group(&["a"])).unwrap_err();
    assert_eq!(error.to_string(), "the plugin used up its boundary: 8388608");
}

/// Counts up the value of key `k` (one byte) and scores by it.
const COUNTING: &str = "(block (result f64)
    (i32.store8 (i32.const 0) (i32.const 107))
    (local.set $a (call $new (i32.const 16)))
    (call $get (i32.const 0) (i32.const 1) (local.get $a))
    (if (i32.load8_u (local.get $a))
        (then (local.set $b (i32.load8_u (i32.load offset=4 (local.get $a))))))
    (local.set $b (i32.add (local.get $b) (i32.const 1)))
    (i32.store8 (i32.const 1) (local.get $b))
    (call $set (i32.const 0) (i32.const 1) (i32.const 1) (i32.const 1) (local.get $a))
    (f64.convert_i32_u (local.get $b)))";

#[test]
fn stored_values_live_for_the_run_and_are_seen_by_this_plugin_alone() {
    let host = super::guests::host();
    let body = scoring(COUNTING);
    let bytes = Parts { imports: STORE, body: &body, ..Parts::default() }.build();
    let other = Parts { imports: STORE, body: &body, name: "other", ..Parts::default() }.build();
    let run = |bytes: &[u8], run: &str| {
        let plugin = host.reward(bytes, &Use { run: run.into(), ..granted("store") }).unwrap();
        first(&plugin.score(&group(&["a"])).unwrap())
    };
    assert_eq!(
        [run(&bytes, "a"), run(&bytes, "a"), run(&bytes, "b"), run(&other, "a")],
        [1.0, 2.0, 1.0, 1.0]
    );
}
