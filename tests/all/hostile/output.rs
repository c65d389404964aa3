//! Guests whose results are well-formed and wrong: too large, not finite, of another length, of
//! other names.

use super::guest::{Guest, spoilt};
use super::*;

/// The first outcome's component holds `value`.
fn component(value: &str) -> Guest {
    Guest::scoring(spoilt(&format!("(f64.store offset=8 (i32.load offset=4 (local.get $out)) {value})")))
}

/// The first outcome's spans are one of `start..end` with `value`, of a response of one byte.
fn span(start: u32, end: u32, value: &str) -> Guest {
    Guest::scoring(spoilt(&format!(
        "(local.set $a (call $new (i32.const 16)))
         (i32.store (local.get $a) (i32.const {start}))
         (i32.store offset=4 (local.get $a) (i32.const {end}))
         (f64.store offset=8 (local.get $a) {value})
         (i32.store offset=12 (local.get $out) (local.get $a))
         (i32.store offset=16 (local.get $out) (i32.const 1))"
    )))
}

/// The first outcome's components are `n` at `pointer`.
fn components(pointer: &str, n: u32) -> Guest {
    Guest::scoring(spoilt(&format!(
        "(i32.store offset=4 (local.get $out) {pointer}) (i32.store offset=8 (local.get $out) (i32.const {n}))"
    )))
}

fn advantages(value: &str) -> Guest {
    Guest { call: format!("(call $values (i32.const 2) {value})"), ..Guest::advantage() }
}

/// A filter whose first verdict drops the group for a reason of `bytes` at 400.
fn reason(text: &str, bytes: usize) -> Guest {
    Guest {
        main: format!(r#"(data (i32.const 400) "{text}")"#),
        call: format!(
            "(local.set $ret (call $verdicts (local.get $n)))
             (local.set $out (i32.load offset=4 (local.get $ret)))
             (i32.store8 (local.get $out) (i32.const 0))
             (i32.store offset=4 (local.get $out) (i32.const 400))
             (i32.store offset=8 (local.get $out) (i32.const {bytes}))
             (local.get $ret)"
        ),
        ..Guest::filter()
    }
}

pub fn cases() -> Vec<Case> {
    let roomy = || limited(patient(), |limits| limits.memory = 512 << 20);
    let more = |n: &str| {
        Guest::scoring(format!("(call $grades (i32.add (local.get $n) (i32.const {n})) (f64.const 1))"))
    };
    let table = [
        (
            19,
            "a note of two hundred megabytes is not read",
            Guest {
                memory: "3500",
                ..Guest::scoring(spoilt(
                    "(i32.store offset=20 (local.get $out) (i32.const 1))
                     (i32.store offset=24 (local.get $out) (i32.const 65536))
                     (i32.store offset=28 (local.get $out) (i32.const 200000000))",
                ))
            },
            "output-too-large",
        ),
        (
            19,
            "a hundred megabytes of outcomes are not read",
            Guest {
                memory: "3500",
                ..Guest::scoring(spoilt(
                    "(i32.store offset=4 (local.get $ret) (i32.const 65536))
                     (i32.store offset=8 (local.get $ret) (i32.const 4000000))",
                ))
            },
            "output-too-large",
        ),
        (
            21,
            "a million nameless components are not read",
            Guest { memory: "300", ..components("(i32.const 65536)", 1_000_000) },
            "output-too-large",
        ),
        (
            21,
            "outcomes that all point at the same large list do not multiply it",
            Guest {
                memory: "40",
                ..Guest::scoring(
                    "(local.set $ret (call $list (i32.const 1000) (i32.const 32)))
                     (local.set $out (i32.load offset=4 (local.get $ret)))
                     (local.set $n (i32.const 1000))
                     (loop $each
                        (i32.store offset=4 (local.get $out) (i32.const 131072))
                        (i32.store offset=8 (local.get $out) (i32.const 100000))
                        (local.set $out (i32.add (local.get $out) (i32.const 32)))
                        (br_if $each (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                     (local.get $ret)",
                )
            },
            "output-too-large",
        ),
        (24, "a reward that is no number is refused", component("(f64.const nan)"), "non-finite"),
        (
            24,
            "a reward that is a number's bits with a message in them is refused",
            component("(f64.const nan:0x8badf00d)"),
            "non-finite",
        ),
        (24, "an infinite reward is refused", component("(f64.const inf)"), "non-finite"),
        (24, "a negatively infinite reward is refused", component("(f64.const -inf)"), "non-finite"),
        (24, "a span whose value is no number is refused", span(0, 1, "(f64.const nan)"), "non-finite"),
        (24, "an advantage that is no number is refused", advantages("(f32.const nan)"), "non-finite"),
        (24, "an infinite advantage is refused", advantages("(f32.const -inf)"), "non-finite"),
        (25, "one outcome too many is refused", more("1"), "wrong-length"),
        (25, "one outcome too few is refused", more("-1"), "wrong-length"),
        (25, "no outcome at all is refused", more("-2"), "wrong-length"),
        (
            25,
            "one verdict too few is refused",
            Guest { call: "(call $verdicts (i32.const 0))".into(), ..Guest::filter() },
            "wrong-length",
        ),
        (
            25,
            "one advantage too many is refused",
            Guest { call: "(call $values (i32.const 3) (f32.const 1))".into(), ..Guest::advantage() },
            "wrong-length",
        ),
        (
            25,
            "advantages per token for two of three tokens are refused",
            Guest {
                call: "(local.set $ret (call $values (i32.const 2) (f32.const 1)))
                    (i32.store offset=4 (local.get $ret) (i32.const 1)) (local.get $ret)"
                    .into(),
                ..Guest::advantage()
            },
            "wrong-length",
        ),
        (25, "a score without a component is refused", components("(i32.const 8192)", 0), "bad-component"),
        (
            25,
            "a component twice is refused",
            Guest::scoring(spoilt(
                "(local.set $a (call $new (i32.const 32)))
                 (memory.copy (local.get $a) (i32.load offset=4 (local.get $out)) (i32.const 16))
                 (memory.copy (i32.add (local.get $a) (i32.const 16)) (local.get $a) (i32.const 16))
                 (i32.store offset=4 (local.get $out) (local.get $a))
                 (i32.store offset=8 (local.get $out) (i32.const 2))",
            )),
            "bad-component",
        ),
        (
            25,
            "a component that was not declared is refused",
            Guest::scoring(spoilt("(i32.store offset=4 (i32.load offset=4 (local.get $out)) (i32.const 3))")),
            "bad-component",
        ),
        (25, "a span beyond the response is refused", span(0, 2, "(f64.const 1)"), "bad-span"),
        (25, "a span that ends before it starts is refused", span(1, 0, "(f64.const 1)"), "bad-span"),
        (
            25,
            "a span of the largest numbers is refused",
            span(u32::MAX, u32::MAX, "(f64.const 1)"),
            "bad-span",
        ),
        (25, "a reason with terminal codes in it is refused", reason("\\1b[31m", 5), "bad-reason"),
        (
            25,
            "a reason that is longer than a metric's name is refused",
            reason(&"x".repeat(100), 100),
            "bad-reason",
        ),
        (25, "a group dropped without a reason is refused", reason("", 0), "bad-reason"),
    ];
    let mut cases: Vec<Case> =
        table.map(|(number, says, guest, kind)| fails(number, says, guest, roomy(), kind)).into();
    cases.push(scene(24, "the smallest and largest finite rewards are kept to the bit", |host| {
        for value in [-0.0, f64::MIN_POSITIVE / 2.0, 1e38, -1e300, f64::MAX, f64::MIN] {
            let guest = Guest::scoring(format!(
                "(call $grades (local.get $n) (f64.reinterpret_i64 (i64.const {})))",
                value.to_bits() as i64
            ));
            let outcomes = load(host, &guest, &patient()).score(&group("g", &["a"])).unwrap();
            let bits = outcomes[0].reward(&[]).map(f64::to_bits);
            assert_eq!(bits, Some(value.to_bits()), "{value:e}");
        }
    }));
    cases.push(scene(25, "terminal codes in a note, a reason and an error come out harmless", |host| {
        let at = "(i32.const 32)";
        let note = spoilt(&format!(
            "(i32.store offset=20 (local.get $out) (i32.const 1))
             (i32.store offset=24 (local.get $out) {at})
             (i32.store offset=28 (local.get $out) (i32.const 25))"
        ));
        let unscorable = spoilt(&format!(
            "(i32.store8 (local.get $out) (i32.const 1))
             (i32.store offset=4 (local.get $out) {at})
             (i32.store offset=8 (local.get $out) (i32.const 25))"
        ));
        let error = spoilt(&format!(
            "(i32.store8 (local.get $ret) (i32.const 1))
             (i32.store offset=4 (local.get $ret) (i32.const 0))
             (i32.store offset=8 (local.get $ret) {at})
             (i32.store offset=12 (local.get $ret) (i32.const 25))"
        ));
        for code in [note, unscorable, error] {
            let outcomes = load(host, &Guest::scoring(code), &patient()).score(&group("g", &["a"])).unwrap();
            let text = match &outcomes[0] {
                Outcome::Scored(grade) => grade.note.clone().unwrap(),
                Outcome::Unscorable { reason } => reason.clone(),
                Outcome::Failed(failure) => failure.message.clone(),
            };
            assert!(text.ends_with("panicked\\nat \\u{1b}[31mguest.rs"), "{text:?}");
        }
    }));
    cases
}

#[test]
fn results_that_are_wrong_are_failures_and_never_scores() {
    withstand(cases());
}
