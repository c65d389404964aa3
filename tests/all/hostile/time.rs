//! Guests that take for ever: every piece of guest code that the host runs has a deadline.

use super::guest::{Capability, FOREVER, Guest, OBEDIENT, scores, spoilt};
use super::*;

/// A resource of the component's own, whose destructor never ends.
const ENDLESS_RESOURCE: &str = r#"
    (core module $dtor-module (func (export "dtor") (param i32) (loop $forever (br $forever))))
    (core instance $dtor (instantiate $dtor-module))
    (type $mine (resource (rep i32) (dtor (core func $dtor "dtor"))))
    (core func $mine-new (canon resource.new $mine))
    (core func $mine-drop (canon resource.drop $mine))"#;

/// A `configure` that raises a flag, at which the allocator turns bad: loading still works.
const RAISE_FLAG: &str = "(i32.store8 (i32.const 8) (i32.const 1)) (i32.const 1024)";

pub fn cases() -> Vec<Case> {
    let reward = Guest::reward;
    let start = "(func $start (loop $forever (br $forever))) (start $start)";
    vec![
        fails(1, "a guest that loops is stopped", Guest::scoring(FOREVER), hasty(), "cpu-timeout"),
        fails(
            1,
            "a guest that only copies memory about is stopped",
            Guest {
                memory: "500",
                call: "(loop $forever (memory.copy (i32.const 8192) (i32.const 65536) (i32.const 30000000))
                    (br $forever)) (unreachable)"
                    .into(),
                ..reward()
            },
            hasty(),
            "cpu-timeout",
        ),
        fails(
            1,
            "a guest that calls the host for ever is stopped",
            Guest::scoring(
                "(loop $forever (call $log (i32.const 0) (i32.const 32) (i32.const 25)) (br $forever))
                 (unreachable)",
            )
            .with(Capability::Log),
            hasty(),
            "cpu-timeout",
        ),
        fails(
            1,
            "a filter that loops is stopped",
            Guest { call: FOREVER.into(), ..Guest::filter() },
            hasty(),
            "cpu-timeout",
        ),
        fails(
            1,
            "an estimator that loops is stopped",
            Guest { call: FOREVER.into(), ..Guest::advantage() },
            hasty(),
            "cpu-timeout",
        ),
        refused(
            1,
            "a guest that loops when it should describe itself is stopped",
            Guest { describe: FOREVER.into(), ..reward() }.build(),
            hasty(),
            "cpu-timeout",
        ),
        refused(
            1,
            "a guest that loops over its configuration is stopped",
            Guest { configure: FOREVER.into(), ..reward() }.build(),
            hasty(),
            "cpu-timeout",
        ),
        fails(
            2,
            "a guest that loops runs out of fuel",
            Guest::scoring(FOREVER),
            fuelled(1_000_000),
            "fuel-exhausted",
        ),
        scene(2, "a guest that loops burns the same fuel on every run", |host| {
            let plugin = load(host, &Guest::scoring(OBEDIENT), &fuelled(1_000_000));
            let burn = |response| {
                let before = plugin.stats().fuel;
                let _ = plugin.score_once(&group("g", &[response]));
                plugin.stats().fuel - before
            };
            let (looping, honest) = (burn("L"), burn("1"));
            assert!(looping > 10 * honest && honest > 0, "{looping} and {honest}");
            assert_eq!([burn("L"), burn("1"), burn("L")], [looping, honest, looping]);
        }),
        refused(
            2,
            "a guest whose fuel does not even last until it has described itself is refused",
            reward().build(),
            fuelled(1),
            "fuel-exhausted",
        ),
        refused(
            3,
            "a guest that loops as it starts is stopped",
            Guest { main: start.into(), ..reward() }.build(),
            hasty(),
            "cpu-timeout",
        ),
        refused(
            3,
            "a guest that loops as it starts runs out of fuel too",
            Guest { libc: start.into(), ..reward() }.build(),
            fuelled(1_000_000),
            "fuel-exhausted",
        ),
        refused(
            4,
            "an allocator that loops while the configuration is passed is stopped",
            Guest { realloc: FOREVER.into(), ..reward() }.build(),
            hasty(),
            "cpu-timeout",
        ),
        fails(
            4,
            "an allocator that loops while a group is passed is stopped",
            Guest {
                realloc: format!(
                    "(if (i32.load8_u (i32.const 8)) (then (loop $forever (br $forever)))) {}",
                    reward().realloc
                ),
                configure: RAISE_FLAG.into(),
                ..reward()
            },
            hasty(),
            "cpu-timeout",
        ),
        fails(
            5,
            "a guest that loops after its result was read is stopped",
            Guest { post_return: Some("(loop $forever (br $forever))"), ..reward() },
            hasty(),
            "cpu-timeout",
        ),
        fails(
            5,
            "a guest whose destructor loops is stopped",
            Guest {
                outside: ENDLESS_RESOURCE.into(),
                lowered: vec![("mine-new", "(param i32) (result i32)"), ("mine-drop", "(param i32)")],
                call: spoilt("(call $mine-drop (call $mine-new (i32.const 1)))"),
                ..reward()
            },
            hasty(),
            "cpu-timeout",
        ),
        harmless(
            5,
            "a destructor that would loop is not run for handles that a guest leaves behind",
            Guest {
                outside: ENDLESS_RESOURCE.into(),
                lowered: vec![("mine-new", "(param i32) (result i32)"), ("mine-drop", "(param i32)")],
                call: spoilt("(drop (call $mine-new (i32.const 1)))"),
                ..reward()
            },
            hasty(),
            1.0,
        ),
        fails(
            6,
            "recursion without end exhausts the guest's stack and nothing else",
            Guest {
                main: "(func $deeper (param i32) (result i32)
                    (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))"
                    .into(),
                call: format!("(drop (call $deeper (i32.const 0))) {}", scores("(f64.const 1)")),
                ..reward()
            },
            patient(),
            "stack-overflow",
        ),
        fails(
            6,
            "recursion between functions with large frames exhausts the guest's stack and nothing else",
            Guest {
                main: format!(
                    "(func $deeper (param i64) (result i64) (local {}) {} (call $deeper (local.get 1)) {})",
                    "i64 ".repeat(200),
                    (1..200)
                        .map(|i| format!("(local.set {i} (i64.add (local.get 0) (i64.const {i})))"))
                        .collect::<String>(),
                    (1..200).map(|i| format!("(i64.add (local.get {i}))")).collect::<String>(),
                ),
                call: format!("(drop (call $deeper (i64.const 0))) {}", scores("(f64.const 1)")),
                ..reward()
            },
            patient(),
            "stack-overflow",
        ),
    ]
}

#[test]
fn guests_that_take_for_ever_are_stopped() {
    withstand(cases());
}

#[test]
fn a_deadline_is_kept_and_not_cut_short() {
    watched("a guest that loops is not stopped before its deadline", || {
        let plugin = load(&host(), &Guest::scoring(FOREVER), &hasty());
        let before = plugin.stats().time;
        plugin.score_once(&group("g", &["a"])).unwrap_err();
        assert!(plugin.stats().time - before >= hasty().limits.time);
    });
}
