//! What a call gives back, and what ends it.

use super::guests::{ENDED, OBEDIENT, Parts, group, hasty, host, scoring};
use crate::{CallError, Kind, Limits, LoadError, RewardPlugin, Use};
use serde_json::json;
use std::time::{Duration, Instant};
use whet_trajectory::{Attribution, Outcome};

fn rewards(outcomes: &[Outcome]) -> Vec<Option<f64>> {
    outcomes.iter().map(|o| o.reward(&[])).collect()
}

fn kind(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Failed(failure) => &failure.kind,
        Outcome::Scored(_) => "scored",
        Outcome::Unscorable { .. } => "unscorable",
    }
}

fn obedient() -> RewardPlugin {
    Parts::default().reward(&hasty())
}

#[test]
fn each_sample_gets_its_outcome_in_order() {
    let plugin = obedient();
    let outcomes = plugin.score(&group(&["1", "x", "U", "1"])).unwrap();
    assert_eq!(rewards(&outcomes), [Some(1.0), Some(0.5), None, Some(1.0)]);
    assert_eq!(outcomes[2], Outcome::Unscorable { reason: "no such mode".into() });
    assert_eq!(plugin.stats().calls, 3, "describe, configure and one call for the whole group");
    assert_eq!(plugin.score(&group(&[])), Ok(vec![]));
}

#[test]
fn a_looping_guest_is_stopped_and_its_neighbours_keep_their_scores() {
    let plugin = obedient();
    let start = Instant::now();
    let outcomes = plugin.score(&group(&["1", "L", "x"])).unwrap();
    assert_eq!(rewards(&outcomes), [Some(1.0), None, Some(0.5)]);
    assert_eq!(kind(&outcomes[1]), "cpu-timeout");
    assert!(start.elapsed() >= Duration::from_millis(200), "once for the group, once for the sample");
    assert_eq!(plugin.stats().retries, 3);
}

#[test]
fn a_failure_of_a_group_wise_plugin_costs_the_whole_group() {
    let plugin = Parts { group_wise: true, ..Parts::default() }.reward(&hasty());
    let outcomes = plugin.score(&group(&["1", "T", "x"])).unwrap();
    assert_eq!(outcomes.iter().map(kind).collect::<Vec<_>>(), ["trapped"; 3]);
    assert_eq!(plugin.stats().retries, 0);
}

#[test]
fn an_isolated_plugin_gets_each_sample_alone_and_says_what_an_ended_call_means() {
    let body = format!("{OBEDIENT}{ENDED}");
    let parts = Parts { world: "isolated-reward-plugin", body: &body, ..Parts::default() };
    let plugin = parts.reward(&hasty());
    assert_eq!(plugin.stats().calls, 2);
    assert_eq!(rewards(&plugin.score(&group(&["1", "x"])).unwrap()), [Some(1.0), Some(0.5)]);
    assert_eq!(plugin.stats().calls, 4, "one call per sample");
    assert_eq!(rewards(&plugin.score_once(&group(&["1", "x"])).unwrap()), [Some(1.0), Some(0.5)]);

    let outcomes = plugin.score(&group(&["L", "G", "R", "T", "N", "1"])).unwrap();
    let expected = ["scored", "scored", "scored", "trapped", "non-finite", "scored"];
    assert_eq!(outcomes.iter().map(kind).collect::<Vec<_>>(), expected);
    assert_eq!(rewards(&outcomes), [Some(0.0), Some(0.0), Some(0.0), None, None, Some(1.0)]);
    let Outcome::Scored(grade) = &outcomes[0] else { panic!("{:?}", outcomes[0]) };
    assert_eq!(grade.note.as_deref(), Some("no such mode"));

    let both = Parts { group_wise: true, ..parts }.build();
    assert!(matches!(host().reward(&both, &hasty()), Err(LoadError::Descriptor(_))));
}

#[test]
fn each_way_to_fail_has_its_name() {
    let plugin = obedient();
    let table = [
        ("L", "cpu-timeout", Attribution::Plugin, true),
        ("T", "trapped", Attribution::Plugin, false),
        ("G", "memory-limit", Attribution::Plugin, false),
        ("R", "stack-overflow", Attribution::Plugin, false),
        ("N", "non-finite", Attribution::Plugin, false),
        ("S", "wrong-length", Attribution::Plugin, false),
        ("P", "abi-violation", Attribution::Plugin, false),
        ("D", "abi-violation", Attribution::Plugin, false),
        ("E", "invalid-input", Attribution::Plugin, false),
        ("C", "bad-component", Attribution::Plugin, false),
        ("V", "bad-span", Attribution::Plugin, false),
        ("B", "output-too-large", Attribution::Plugin, false),
    ];
    for (response, expected, attribution, retryable) in table {
        let error = plugin.score_once(&group(&[response])).unwrap_err();
        assert_eq!((error.kind(), error.attribution()), (expected, attribution), "{response}: {error}");
        assert_eq!(error.retryable(), retryable, "{response}");
        let outcomes = plugin.score(&group(&[response, "1"])).unwrap();
        assert_eq!((kind(&outcomes[0]), kind(&outcomes[1])), (expected, "scored"), "{response}");
    }
}

#[test]
fn the_text_of_a_panic_is_in_the_error_and_harmless() {
    let error = obedient().score_once(&group(&["T"])).unwrap_err();
    let CallError::Trapped { log: Some(log), .. } = &error else { panic!("{error:?}") };
    assert_eq!(log, "panicked\\nat \\u{1b}[31mguest.rs");
    assert!(error.to_string().contains("it said: panicked"));
}

#[test]
fn nothing_of_a_call_is_seen_by_the_next() {
    let counting = scoring(
        "(block (result f64)
            (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
            (f64.convert_i32_u (i32.load (i32.const 0))))",
    );
    let plugin = Parts { body: &counting, ..Parts::default() }.reward(&Use::default());
    for _ in 0..3 {
        assert_eq!(rewards(&plugin.score(&group(&["a"])).unwrap()), [Some(1.0)]);
    }
}

#[test]
fn a_guest_finds_nothing_of_another_guest_in_its_memory() {
    let host = host();
    // Fills all of its two pages beyond the data, and a third, with 0xAA.
    let filling = scoring(
        "(block (result f64) (drop (memory.grow (i32.const 1)))
            (memory.fill (i32.const 8192) (i32.const 0xaa) (i32.const 188416)) (f64.const 1))",
    );
    // Scores by the number of words that are not zero from 64 KiB on, in four pages.
    let looking = scoring(
        "(block (result f64)
            (drop (memory.grow (i32.const 2)))
            (local.set $a (i32.const 65536))
            (loop $l
                (if (i32.load (local.get $a)) (then (local.set $b (i32.add (local.get $b) (i32.const 1)))))
                (br_if $l (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 4))) (i32.const 262144))))
            (f64.convert_i32_u (local.get $b)))",
    );
    let filling =
        host.reward(&Parts { body: &filling, ..Parts::default() }.build(), &Use::default()).unwrap();
    let looking =
        host.reward(&Parts { body: &looking, ..Parts::default() }.build(), &Use::default()).unwrap();
    for _ in 0..300 {
        assert_eq!(rewards(&filling.score(&group(&["a"])).unwrap()), [Some(1.0)]);
        assert_eq!(rewards(&looking.score(&group(&["a"])).unwrap()), [Some(0.0)]);
    }
}

#[test]
fn a_guest_that_loops_before_its_call_is_stopped_too() {
    let start = format!("(func $forever (loop $l (br $l))) (start $forever) {OBEDIENT}");
    let looping = [
        Parts { body: &start, ..Parts::default() },
        Parts { describe: "(loop $l (br $l)) (unreachable)", ..Parts::default() },
        Parts { configure: "(loop $l (br $l)) (unreachable)", ..Parts::default() },
    ];
    for parts in looping {
        let error = host().reward(&parts.build(), &hasty()).err().unwrap();
        assert_eq!(error.kind(), "cpu-timeout", "{error}");
    }
}

#[test]
fn a_guest_that_starts_with_too_much_memory_does_not_start() {
    let parts = Parts { pages: 2000, ..Parts::default() };
    let error = host().reward(&parts.build(), &hasty()).err().unwrap();
    assert_eq!(error, LoadError::Call(CallError::MemoryLimit(64 << 20)));
}

#[test]
fn the_configuration_is_checked_by_schema_and_by_the_plugin() {
    let schema = r#"{"type":"object","properties":{"mode":{"type":"string"}},"additionalProperties":false}"#;
    let bytes = Parts { schema, ..Parts::default() }.build();
    let load = |config| host().reward(&bytes, &Use { config, ..Use::default() }).err();
    assert_eq!(load(json!({"mode": "strict"})), None);
    assert_eq!(load(json!({"mode": 1})).unwrap().kind(), "config");
    assert_eq!(load(json!([])).unwrap().kind(), "config");
    let unknown = load(json!({"mod": "strict"})).unwrap().to_string();
    assert_eq!(unknown, "the configuration does not fit: `mod` is not known; known are: mode");

    let refusing = Parts { configure: "(i32.const 1040)", ..Parts::default() }.build();
    let error = host().reward(&refusing, &Use::default()).err().unwrap();
    assert_eq!(error, LoadError::Configure("no such mode".into()));
}

#[test]
fn a_descriptor_that_breaks_the_contract_is_refused() {
    let table = [
        Parts { name: "a name\n", ..Parts::default() },
        Parts { name: "", ..Parts::default() },
        Parts { declares: "", ..Parts::default() },
        Parts { declares: "bad name", ..Parts::default() },
        Parts { schema: "{", ..Parts::default() },
        Parts { schema: r#"{"pattern":"x"}"#, ..Parts::default() },
    ];
    for parts in table {
        let error = host().reward(&parts.build(), &Use::default()).err().unwrap();
        assert_eq!(error.kind(), "descriptor", "{error}");
    }
}

#[test]
fn many_threads_score_at_once_and_wait_for_a_place() {
    let limits = Limits { concurrency: 2, time: Duration::from_secs(20), ..Limits::default() };
    let plugin = Parts::default().reward(&Use { limits, ..Use::default() });
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(rewards(&plugin.score(&group(&["1", "x"])).unwrap()), [Some(1.0), Some(0.5)]);
                }
            });
        }
    });
    assert_eq!(plugin.stats().failures, 0);
}

#[test]
fn a_plugin_whose_places_are_taken_says_so_and_other_plugins_do_not_notice() {
    let host = host();
    let limits = Limits { concurrency: 1, time: Duration::from_millis(300), ..Limits::default() };
    let busy = host.reward(&Parts::default().build(), &Use { limits, ..Use::default() }).unwrap();
    let other = host.reward(&Parts { name: "other", ..Parts::default() }.build(), &Use::default()).unwrap();
    std::thread::scope(|scope| {
        let loops: Vec<_> = (0..4).map(|_| scope.spawn(|| busy.score_once(&group(&["L"])))).collect();
        assert_eq!(rewards(&other.score(&group(&["1"])).unwrap()), [Some(1.0)]);
        let errors: Vec<_> = loops.into_iter().map(|l| l.join().unwrap().unwrap_err()).collect();
        assert!(errors.contains(&CallError::PoolExhausted), "{errors:?}");
        assert!(errors.iter().any(|e| e.kind() == "cpu-timeout"), "{errors:?}");
    });
}

#[test]
fn inspection_tells_what_a_component_is_without_using_it() {
    let bytes = Parts {
        imports: super::guests::RANDOM,
        body: &scoring("(f64.convert_i64_u (call $random))"),
        ..Parts::default()
    }
    .build();
    let seen = host().inspect(&bytes).unwrap();
    assert_eq!((seen.kinds, seen.world), (vec![Kind::Reward], "whet:plugin/reward-plugin"));
    assert_eq!(seen.needs_grants, ["random"]);
    assert_eq!((seen.size, seen.digest), (bytes.len(), crate::Digest::of(&bytes)));
    assert_eq!(
        (seen.descriptor.name.as_str(), seen.descriptor.components),
        ("guest", vec!["correct".into()])
    );
}
