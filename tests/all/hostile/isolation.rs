//! Guests that break, or look for what others left: each call stands alone.

use super::guest::{Capability, FOREVER, Guest, OBEDIENT, scores, spoilt};
use super::threads::at_rest_after;
use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub fn cases() -> Vec<Case> {
    let trap = |says, code: &str| {
        fails(13, says, Guest::scoring(format!("{code} {}", scores("(f64.const 1)"))), patient(), "trapped")
    };
    vec![
        trap("a guest that gives up has trapped", "unreachable"),
        trap("a guest that divides by zero has trapped", "(drop (i32.div_s (i32.const 1) (i32.const 0)))"),
        trap("a guest that reads outside of its memory has trapped", "(drop (i32.load (i32.const -4)))"),
        trap(
            "a guest that writes outside of its memory has trapped",
            "(i64.store offset=4294967295 (i32.const -1) (i64.const 1))",
        ),
        trap("a guest that calls what is not in its table has trapped", "(call_indirect (i32.const 3))"),
        trap(
            "a guest that calls with another type has trapped",
            "(drop (call_indirect (result i64) (i32.const 99)))",
        ),
        trap(
            "a guest that converts what is no number has trapped",
            "(drop (i32.trunc_f64_s (f64.const nan)))",
        ),
        trap(
            "a guest that fills outside of its memory has trapped",
            "(memory.fill (i32.const 0) (i32.const 1) (i32.const -1))",
        ),
        refused(
            13,
            "a guest that gives up as it starts is refused",
            Guest { main: "(func $start unreachable) (start $start)".into(), ..Guest::reward() }.build(),
            patient(),
            "trapped",
        ),
        refused(
            13,
            "a guest whose data does not fit into its memory is refused",
            Guest { main: r#"(data (i32.const 131070) "beyond")"#.into(), ..Guest::reward() }.build(),
            patient(),
            "trapped",
        ),
        scene(13, "the text of a panic is in the error, harmless, and gone with the next call", |host| {
            let code = format!(
                "(if (i32.eq (i32.load8_u (i32.load offset=16 (local.get $samples))) (i32.const 80))
                    (then (call $log (i32.const 3) (i32.const 32) (i32.const 25)) unreachable))
                 {OBEDIENT}"
            );
            let plugin = load(host, &Guest::scoring(code).with(Capability::Log), &patient());
            let error = plugin.score_once(&group("g", &["P"])).unwrap_err();
            assert!(error.to_string().ends_with("it said: panicked\\nat \\u{1b}[31mguest.rs"), "{error}");
            let error = plugin.score_once(&group("g", &["T"])).unwrap_err();
            assert!(!error.to_string().contains("panicked"), "{error}");
        }),
        scene(13, "a sample that traps costs its neighbours nothing", |host| {
            let plugin = load(host, &Guest::scoring(OBEDIENT), &patient());
            let outcomes = plugin.score(&group("g", &["1", "T", "x", "T"])).unwrap();
            assert_eq!(kinds(&outcomes), ["scored", "trapped", "scored", "trapped"]);
        }),
        scene(1, "a looping sample of eight costs the other seven nothing", looping_sample),
        scene(
            1,
            "a group whose scores depend on each other fails as a whole when one sample loops",
            |host| {
                let guest = Guest { group_wise: true, ..Guest::scoring(OBEDIENT) };
                let plugin = load(host, &guest, &hasty());
                let outcomes = plugin.score(&group("g", &["1", "L", "x"])).unwrap();
                assert_eq!(kinds(&outcomes), ["cpu-timeout"; 3]);
                assert_eq!(plugin.stats().retries, 0);
            },
        ),
        scene(
            1,
            "three bad samples of sixty-four are errors of their kinds, the others have their scores, and \
             nothing goes on computing",
            |host| {
                let patience = Duration::from_secs(60);
                let at_rest = at_rest_after("batch-of-64", patience, || batch_of_64(host));
                assert_eq!(at_rest, Ok(()), "threads that go on computing");
            },
        ),
        scene(1, "a group that loops leaves a group scored at the same time alone", concurrent_group),
        scene(37, "a guest finds nothing of another guest in memory, table or globals", leftovers),
        scene(38, "plugins of equal bytes do not see each other's state", |host| {
            let guest = counting();
            let plugins = ["a", "b"].map(|run| load(host, &guest, &Use { run: run.into(), ..patient() }));
            for plugin in plugins.iter().cycle().take(6) {
                assert_eq!(rewards(&plugin.score(&group("g", &["x"])).unwrap()), [Some(1.0)]);
            }
        }),
        scene(39, "a guest that grows a little with every call starts each call as small", |host| {
            let growing = "(drop (memory.grow (i32.const 1)))
                (call $grades (local.get $n) (f64.convert_i32_u (memory.size)))";
            let plugin = load(host, &Guest::scoring(growing), &patient());
            for _ in 0..500 {
                assert_eq!(rewards(&plugin.score(&group("g", &["x"])).unwrap()), [Some(3.0)]);
            }
            assert_eq!(plugin.stats().peak_memory, 3 << 16);
        }),
        scene(40, "a guest that looks for chance finds the same on every run", no_chance),
        scene(42, "a plugin that keeps its places busy lacks them alone", busy_places),
        scene(42, "a plugin that takes the whole pool gives it back", whole_pool),
        scene(43, "a call in flight ends as it began when its plugin is loaded anew", reload),
        scene(43, "a guest that loops is stopped even when its host is gone", |_| {
            let plugin = {
                let host = host();
                load(&host, &Guest::scoring(FOREVER), &hasty())
            };
            assert_eq!(plugin.score_once(&group("g", &["a"])).unwrap_err().kind(), "cpu-timeout");
        }),
        harmless(
            5,
            "a guest that traps after its result was read has not scored, and one that does not has",
            Guest { post_return: Some("(i32.store (local.get $ret) (i32.const -1))"), ..Guest::reward() },
            patient(),
            1.0,
        ),
        fails(
            5,
            "a guest that traps after its result was read has trapped",
            Guest { post_return: Some("unreachable"), ..Guest::reward() },
            patient(),
            "trapped",
        ),
    ]
}

/// Scores by how often its memory and its globals say that it was called.
fn counting() -> Guest {
    Guest {
        main: "(global $calls (mut i32) (i32.const 0))".into(),
        call: "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
            (i32.store (i32.const 8192) (i32.add (i32.load (i32.const 8192)) (i32.const 1)))
            (call $grades (local.get $n)
                (f64.convert_i32_u (i32.mul (global.get $calls) (i32.load (i32.const 8192)))))"
            .into(),
        ..Guest::reward()
    }
}

fn looping_sample(host: &Host) {
    let plugin = load(host, &Guest::scoring(OBEDIENT), &hasty());
    let outcomes = plugin.score(&group("g", &["1", "x", "1", "L", "x", "1", "x", "1"])).unwrap();
    let (one, half) = (Some(1.0), Some(0.5));
    assert_eq!(rewards(&outcomes), [one, half, one, None, half, one, half, one]);
    assert_eq!(kinds(&outcomes)[3], "cpu-timeout");
    let stats = plugin.stats();
    assert_eq!((stats.retries, stats.failures), (8, 2), "the group's call and the sample's own");
}

/// Eight groups of eight, scored from four threads: one sample loops, one takes all memory it can get, one says NaN.
fn batch_of_64(host: &Host) {
    let plugin = load(host, &Guest::scoring(OBEDIENT), &hasty());
    let mut responses = vec![["1", "x", "1", "x", "x", "1", "1", "x"]; 8];
    let bad = [(1, 3, "L", "cpu-timeout"), (4, 0, "M", "memory-limit"), (6, 7, "N", "non-finite")];
    bad.iter().for_each(|&(group, sample, says, _)| responses[group][sample] = says);
    let next = AtomicUsize::new(0);
    let score_all = || {
        let mut outcomes = Vec::new();
        while let Some(responses) = responses.get(next.fetch_add(1, Ordering::Relaxed)) {
            outcomes.push((responses, plugin.score(&group("g", responses)).unwrap()));
        }
        outcomes
    };
    let scored: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(score_all)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(scored.len(), 8);
    for (response, outcome) in scored.iter().flat_map(|(responses, o)| responses.iter().zip(o)) {
        let kind =
            bad.iter().find(|(_, _, says, _)| says == response).map_or("scored", |(_, _, _, kind)| kind);
        assert_eq!(kinds(std::slice::from_ref(outcome)), [kind], "{response}");
        let reward = match *response {
            "1" => Some(1.0),
            "x" => Some(0.5),
            _ => None,
        };
        assert_eq!(outcome.reward(&[]), reward, "{response}");
    }
}

/// While one thread scores a group that loops, another scores good groups with the same plugin.
fn concurrent_group(host: &Host) {
    let plugin = load(host, &Guest::scoring(OBEDIENT), &hasty());
    let other = load(host, &Guest { name: "other", ..Guest::scoring(OBEDIENT) }, &patient());
    let (looping, scored) = (AtomicBool::new(true), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            while looping.load(Ordering::Acquire) {
                let outcomes = other.score(&group("good", &["1", "x"])).unwrap();
                assert_eq!(rewards(&outcomes), [Some(1.0), Some(0.5)]);
                scored.fetch_add(1, Ordering::Relaxed);
            }
        });
        let outcomes = plugin.score(&group("bad", &["L", "L"])).unwrap();
        looping.store(false, Ordering::Release);
        assert_eq!(kinds(&outcomes), ["cpu-timeout"; 2]);
        neighbour.join().unwrap();
    });
    assert!(scored.into_inner() > 1, "the neighbour waited for the group that loops");
    assert_eq!((other.stats().failures, other.stats().retries), (0, 0));
}

/// A pool of one slot, so that each guest gets what the one before had.
fn leftovers(_: &Host) {
    let host = Host::new(HostOptions { instances: 1, ..HostOptions::default() });
    let filling = Guest {
        main: "(global $secret (mut i64) (i64.const 0)) (func $mark) (elem declare func $mark)".into(),
        call: spoilt(
            "(drop (memory.grow (i32.const 2)))
             (memory.fill (i32.const 65536) (i32.const 0xaa) (i32.const 196608))
             (drop (table.grow $table (ref.func $mark) (i32.const 60)))
             (table.fill $table (i32.const 0) (ref.func $mark) (i32.const 64))
             (global.set $secret (i64.const -1))",
        ),
        ..Guest::reward()
    };
    // Scores by the words of memory and the entries of the table that hold something.
    let looking = Guest {
        main: "(global $secret (mut i64) (i64.const 0))".into(),
        call: "
            (drop (memory.grow (i32.const 2)))
            (drop (table.grow $table (ref.null func) (i32.const 60)))
            (local.set $b (i32.wrap_i64 (global.get $secret)))
            (local.set $a (i32.const 65536))
            (loop $words
                (if (i32.load (local.get $a)) (then (local.set $b (i32.add (local.get $b) (i32.const 1)))))
                (br_if $words (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 4))) (i32.const 262144))))
            (local.set $a (i32.const 64))
            (loop $entries
                (local.set $a (i32.sub (local.get $a) (i32.const 1)))
                (if (i32.eqz (ref.is_null (table.get $table (local.get $a))))
                    (then (local.set $b (i32.add (local.get $b) (i32.const 1)))))
                (br_if $entries (local.get $a)))
            (call $grades (local.get $n) (f64.convert_i32_s (local.get $b)))"
            .into(),
        ..Guest::reward()
    };
    let roomy = limited(patient(), |limits| limits.memory = 256 << 20);
    let (filling, looking) = (load(&host, &filling, &roomy), load(&host, &looking, &roomy));
    for _ in 0..100 {
        assert_eq!(rewards(&filling.score(&group("g", &["a"])).unwrap()), [Some(1.0)]);
        assert_eq!(rewards(&looking.score(&group("g", &["a"])).unwrap()), [Some(0.0)]);
    }
}

/// Addresses, the bits of a number that is none, the random numbers and the memory's size.
fn no_chance(_: &Host) {
    let code = "
        (local.set $a (i32.xor (local.get $samples) (call $new (i32.const 8))))
        (local.set $a (i32.xor (local.get $a) (memory.size)))
        (call $grades (local.get $n) (f64.convert_i64_u (i64.shr_u (i64.xor
            (i64.xor (call $random) (i64.extend_i32_u (local.get $a)))
            (i64.reinterpret_f64 (f64.div (f64.const 0) (f64.load (i32.const 8192))))) (i64.const 12))))";
    let guest = Guest::scoring(code).with(Capability::Random);
    let usage = Use { grants: granted("random").grants, seed: 7, ..fuelled(1_000_000) };
    let run = || {
        let host = host();
        let plugin = load(&host, &guest, &usage);
        let score = |id| rewards(&plugin.score(&group(id, &["a"])).unwrap())[0].unwrap();
        let numbers = [score("g"), score("h"), score("g")];
        assert_eq!(numbers[0], numbers[2], "the same group again");
        (numbers.map(f64::to_bits), plugin.stats().fuel)
    };
    assert_eq!(run(), run());
}

fn busy_places(host: &Host) {
    let usage = limited(hasty(), |limits| limits.concurrency = 1);
    let busy = load(host, &Guest::scoring(FOREVER), &usage);
    let other = load(host, &Guest { name: "other", ..Guest::reward() }, &patient());
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(|| busy.score_once(&group("g", &["a"])))).collect();
        for _ in 0..20 {
            assert_eq!(rewards(&other.score(&group("g", &["a"])).unwrap()), [Some(1.0)]);
        }
        let errors: Vec<_> = callers.into_iter().map(|c| c.join().unwrap().unwrap_err()).collect();
        for error in &errors {
            let attribution = match error.kind() {
                "cpu-timeout" => Attribution::Plugin,
                "pool-exhausted" => Attribution::Host,
                kind => panic!("{kind}: {error}"),
            };
            assert_eq!((error.attribution(), error.retryable()), (attribution, true));
        }
        assert!(errors.iter().any(|e| e.kind() == "pool-exhausted"), "{errors:?}");
        assert!(errors.iter().any(|e| e.kind() == "cpu-timeout"), "{errors:?}");
    });
}

/// More loops than the pool has places, without a limit of the plugin's own.
fn whole_pool(host: &Host) {
    let plugin = load(host, &Guest::scoring(FOREVER), &hasty());
    std::thread::scope(|scope| {
        let callers: Vec<_> =
            (0..POOL * 2).map(|_| scope.spawn(|| plugin.score_once(&group("g", &["a"])))).collect();
        for caller in callers {
            let error = caller.join().unwrap().unwrap_err();
            assert!(["cpu-timeout", "pool-exhausted"].contains(&error.kind()), "{error}");
        }
    });
}

/// The old component scores 1 slowly, the new one 2; calls of the old one end with its score.
fn reload(host: &Host) {
    let slow = "
        (local.set $a (i32.const 30000000))
        (loop $wait (br_if $wait (local.tee $a (i32.sub (local.get $a) (i32.const 1)))))
        (call $grades (local.get $n) (f64.const 1))";
    let old = Arc::new(load(host, &Guest::scoring(slow), &patient()));
    let in_flight: Vec<_> = (0..3)
        .map(|_| {
            let old = old.clone();
            std::thread::spawn(move || rewards(&old.score(&group("g", &["a"])).unwrap()))
        })
        .collect();
    drop(old);
    let new = load(host, &Guest::scoring(scores("(f64.const 2)")), &patient());
    assert_eq!(rewards(&new.score(&group("g", &["a"])).unwrap()), [Some(2.0)]);
    for call in in_flight {
        assert_eq!(call.join().unwrap(), [Some(1.0)]);
    }
}

#[test]
fn guests_that_break_or_look_around_stand_alone() {
    withstand(cases());
}
