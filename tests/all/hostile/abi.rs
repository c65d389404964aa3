//! Guests that break the canonical ABI: pointers, texts and discriminants are believed by nobody.

use super::guest::{Capability, Guest, scores, spoilt};
use super::*;

/// The first outcome's note becomes `length` bytes at `pointer`.
fn note(pointer: i64, length: i64) -> Guest {
    Guest::scoring(spoilt(&format!(
        "(i32.store offset=20 (local.get $out) (i32.const 1))
         (i32.store offset=24 (local.get $out) (i32.const {pointer}))
         (i32.store offset=28 (local.get $out) (i32.const {length}))"
    )))
}

/// The result's list becomes `length` outcomes at `pointer`.
fn outcomes(pointer: i64, length: i64) -> Guest {
    Guest::scoring(spoilt(&format!(
        "(i32.store offset=4 (local.get $ret) (i32.const {pointer}))
         (i32.store offset=8 (local.get $ret) (i32.const {length}))"
    )))
}

fn allocating(realloc: &str) -> Vec<u8> {
    Guest { realloc: realloc.into(), ..Guest::reward() }.build()
}

pub fn cases() -> Vec<Case> {
    let reward = Guest::reward;
    let score = scores("(f64.const 1)");
    let violations = [
        (14, "a text outside of memory is refused", note(-16, 8)),
        (14, "a text that begins inside of memory and ends outside is refused", note(131_000, 4096)),
        (14, "a text of two gigabytes is refused", note(0, 0x7fff_ffff)),
        (14, "a text whose end wraps around is refused", note(4096, 0xffff_ffff)),
        (14, "a list outside of memory is refused", outcomes(-32, 2)),
        (14, "a list whose size wraps around is refused", outcomes(0, 0x0800_0001)),
        (14, "a list of all the items that a length can say is refused", outcomes(0, 0xffff_ffff)),
        (14, "a result outside of memory is refused", Guest::scoring("(i32.const -16)")),
        (15, "a list at an odd address is refused", outcomes(4097, 2)),
        (15, "a result at an odd address is refused", Guest::scoring("(i32.const 4097)")),
        (
            16,
            "a text that is not UTF-8 is refused",
            Guest { main: r#"(data (i32.const 400) "\c3\28\a0\a1")"#.into(), ..note(400, 4) },
        ),
        (
            16,
            "a text with half of a surrogate pair is refused",
            Guest { main: r#"(data (i32.const 400) "\ed\a0\80")"#.into(), ..note(400, 3) },
        ),
        (
            16,
            "a name that ends within a character is refused",
            Guest {
                main: r#"(data (i32.const 400) "correct\f0\9f")"#.into(),
                ..Guest::scoring(spoilt(
                    "(i32.store (i32.load offset=4 (local.get $out)) (i32.const 400))
                     (i32.store offset=4 (i32.load offset=4 (local.get $out)) (i32.const 9))",
                ))
            },
        ),
        (
            17,
            "a result that is neither good nor bad is refused",
            Guest::scoring(spoilt("(i32.store8 (local.get $ret) (i32.const 2))")),
        ),
        (
            17,
            "an outcome that the contract does not know is refused",
            Guest::scoring(spoilt("(i32.store8 (local.get $out) (i32.const 255))")),
        ),
        (
            17,
            "an option that is neither there nor not is refused",
            Guest::scoring(spoilt("(i32.store8 offset=20 (local.get $out) (i32.const 2))")),
        ),
        (
            17,
            "an error that the contract does not know is refused",
            Guest::scoring(spoilt(
                "(i32.store (local.get $ret) (i32.const 1)) (i32.store offset=4 (local.get $ret) (i32.const 3))",
            )),
        ),
        (
            17,
            "advantages that are neither per sample nor per token are refused",
            Guest {
                call: "(local.set $ret (call $values (i32.const 2) (f32.const 1)))
                    (i32.store offset=4 (local.get $ret) (i32.const 2)) (local.get $ret)"
                    .into(),
                ..Guest::advantage()
            },
        ),
        (
            17,
            "a log level that the contract does not know is refused",
            Guest::scoring(format!("(call $log (i32.const 4) (i32.const 32) (i32.const 25)) {score}"))
                .with(Capability::Log),
        ),
        (
            14,
            "a log line outside of memory is refused",
            Guest::scoring(format!("(call $log (i32.const 0) (i32.const -1) (i32.const 25)) {score}"))
                .with(Capability::Log),
        ),
        (
            16,
            "a log line that is not UTF-8 is refused",
            Guest {
                main: r#"(data (i32.const 400) "\ff\fe")"#.into(),
                ..Guest::scoring(format!("(call $log (i32.const 0) (i32.const 400) (i32.const 2)) {score}"))
            }
            .with(Capability::Log),
        ),
        (
            23,
            "a handle that was never given is refused",
            Guest::scoring(format!("(call $media-mime (i32.const 77) (i32.const 4096)) {score}"))
                .with(Capability::Media),
        ),
        (
            23,
            "a handle that was dropped is refused",
            Guest::scoring(format!(
                "(local.set $a (call $media-new (i32.const 16) (i32.const 7) (i32.const 0) (i32.const 0)))
                 (call $media-drop (local.get $a)) (call $media-drop (local.get $a)) {score}"
            ))
            .with(Capability::Media),
        ),
    ];
    let mut cases: Vec<Case> = violations
        .into_iter()
        .map(|(number, says, guest)| fails(number, says, guest, patient(), "abi-violation"))
        .collect();
    cases.extend([
        refused(
            14,
            "a description outside of memory is refused",
            Guest { describe: "(i32.const 131060)".into(), ..reward() }.build(),
            patient(),
            "abi-violation",
        ),
        refused(
            17,
            "a promise of determinism that the contract does not know is refused",
            Guest { main: r#"(data (i32.const 552) "\03")"#.into(), ..reward() }.build(),
            patient(),
            "abi-violation",
        ),
        refused(
            18,
            "an allocator that answers with an address outside of memory is refused",
            allocating("(i32.const -4096)"),
            patient(),
            "abi-violation",
        ),
        refused(
            18,
            "an allocator whose room ends outside of memory is refused",
            allocating("(i32.const 131071)"),
            patient(),
            "abi-violation",
        ),
        fails(
            18,
            "an allocator that answers with an odd address for a list is refused",
            Guest {
                realloc: format!(
                    "(if (i32.and (i32.load8_u (i32.const 8)) (i32.gt_u (local.get $align) (i32.const 1)))
                        (then (return (i32.const 4097)))) {}",
                    reward().realloc
                ),
                configure: "(i32.store8 (i32.const 8) (i32.const 1)) (i32.const 1024)".into(),
                // Makes no lists of its own, since the allocator would spoil those.
                call: "(i32.const 1024)".into(),
                ..reward()
            },
            patient(),
            "abi-violation",
        ),
        harmless(
            18,
            "an allocator that gives out the same room again and again spoils only the guest's own arguments",
            Guest {
                realloc: format!(
                    "(if (i32.load8_u (i32.const 8)) (then (return (i32.const 65536)))) {}",
                    reward().realloc
                ),
                configure: "(i32.store8 (i32.const 8) (i32.const 1)) (i32.const 1024)".into(),
                call: format!("(i32.store8 (i32.const 8) (i32.const 0)) {}", scores("(f64.const 1)")),
                ..reward()
            },
            patient(),
            1.0,
        ),
        harmless(
            18,
            "an allocator that answers with null spoils only the guest's own memory",
            Guest {
                realloc: format!(
                    "(if (i32.load8_u (i32.const 1036)) (then (return (i32.const 0)))) {}",
                    reward().realloc
                ),
                configure: "(i32.store8 (i32.const 1036) (i32.const 1)) (i32.const 1024)".into(),
                main: r#"(data $name "correct")"#.into(),
                call: format!(
                    "(i32.store8 (i32.const 1036) (i32.const 0))
                     (memory.init $name (i32.const 16) (i32.const 0) (i32.const 7)) {}",
                    scores("(f64.const 1)")
                ),
                ..reward()
            },
            patient(),
            1.0,
        ),
        refused(
            7,
            "an allocator that calls the host while the host passes arguments is refused",
            Guest {
                realloc: "(call_indirect (type $callback) (i32.const 0)) (i32.const 4096)".into(),
                libc: "(type $callback (func))".into(),
                main: "(func $back (drop (call $random))) (elem (i32.const 0) $back)".into(),
                ..reward()
            }
            .with(Capability::Random)
            .build(),
            granted("random"),
            "trapped",
        ),
        fails(
            7,
            "an allocator that calls the host back when the host answers it is stopped",
            Guest {
                realloc: format!(
                    "(if (i32.load8_u (i32.const 8)) (then (call_indirect (type $callback) (i32.const 0)))) {}",
                    reward().realloc
                ),
                libc: "(type $callback (func))".into(),
                main: "(func $back (call $get (i32.const 16) (i32.const 7) (i32.const 1048)))
                    (elem (i32.const 0) $back)"
                    .into(),
                call: format!(
                    "(call $set (i32.const 16) (i32.const 7) (i32.const 16) (i32.const 7) (i32.const 1048))
                     (i32.store8 (i32.const 8) (i32.const 1))
                     (call $get (i32.const 16) (i32.const 7) (i32.const 1048))
                     {score}"
                ),
                ..reward()
            }
            .with(Capability::Store),
            granted("store"),
            "trapped",
        ),
    ]);
    cases
}

#[test]
fn guests_that_break_the_abi_are_refused() {
    withstand(cases());
}
