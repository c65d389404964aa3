//! Guests that want too much room: memories and tables are summed, instances and handles counted.

use super::guest::{Capability, Guest, scores};
use super::*;

/// `n` core modules with 16 MiB of memory each.
fn memories(n: usize) -> String {
    let each = |i| format!("(core module $large{i} (memory 256)) (core instance (instantiate $large{i}))\n");
    (0..n).map(each).collect()
}

/// `n` inner components with 16 MiB of memory each.
fn nested(n: usize) -> String {
    let one = "(component $large (core module $m (memory 256)) (core instance (instantiate $m)))";
    format!("{one} {}", "(instance (instantiate $large))".repeat(n))
}

fn instances(n: usize) -> String {
    format!("(core module $empty) {}", "(core instance (instantiate $empty))".repeat(n))
}

fn outside(items: String) -> Vec<u8> {
    Guest { outside: items, ..Guest::reward() }.build()
}

/// Grows the table by `entries`, which must fail.
fn grow_table(entries: u32) -> String {
    format!("(table.grow $table (ref.null func) (i32.const {entries}))")
}

pub fn cases() -> Vec<Case> {
    let reward = Guest::reward;
    let score = scores("(f64.const 1)");
    vec![
        fails(
            8,
            "a guest that grows its memory and gives up when refused has hit its limit",
            Guest::scoring(
                "(loop $more (br_if $more (i32.ne (i32.const -1) (memory.grow (i32.const 16))))) unreachable",
            ),
            patient(),
            "memory-limit",
        ),
        harmless(
            8,
            "a guest that is refused memory and goes on keeps its score",
            Guest::scoring(format!(
                "(if (i32.ne (i32.const -1) (memory.grow (i32.const 60000))) (then unreachable)) {score}"
            )),
            patient(),
            1.0,
        ),
        fails(
            8,
            "a guest that grows beyond its own maximum and gives up has not hit its limit",
            Guest {
                memory: "2 4",
                ..Guest::scoring(
                    "(local.set $a (i32.const 100))
                     (loop $more
                        (drop (memory.grow (i32.const 500)))
                        (br_if $more (local.tee $a (i32.sub (local.get $a) (i32.const 1)))))
                     unreachable",
                )
            },
            patient(),
            "trapped",
        ),
        refused(
            9,
            "a guest that starts with more memory than it may have does not start",
            Guest { memory: "2000", ..reward() }.build(),
            patient(),
            "memory-limit",
        ),
        refused(
            9,
            "a guest that starts with all the memory there is does not start",
            Guest { memory: "65536", ..reward() }.build(),
            patient(),
            "memory-limit",
        ),
        refused(
            10,
            "memories that each fit but not together do not start",
            outside(memories(5)),
            patient(),
            "memory-limit",
        ),
        refused(
            10,
            "memories of inner components that each fit but not together do not start",
            outside(nested(5)),
            patient(),
            "memory-limit",
        ),
        harmless(
            10,
            "memories that fit together start",
            Guest { outside: memories(3), ..reward() },
            patient(),
            1.0,
        ),
        fails(
            11,
            "a guest that grows its table and gives up when refused has hit its limit",
            Guest::scoring(format!(
                "(if (i32.eq (i32.const -1) {}) (then unreachable)) {score}",
                grow_table(1 << 27)
            )),
            patient(),
            "table-limit",
        ),
        harmless(
            11,
            "a guest that is refused table entries and goes on keeps its score",
            Guest::scoring(format!(
                "(if (i32.ne (i32.const -1) {}) (then unreachable)) {score}",
                grow_table(u32::MAX)
            )),
            patient(),
            1.0,
        ),
        refused(
            11,
            "tables that each fit but not together do not start",
            outside(
                (0..3)
                    .map(|i| format!("(core module $t{i} (table 40000 funcref)) (core instance (instantiate $t{i}))"))
                    .collect(),
            ),
            patient(),
            "table-limit",
        ),
        refused(
            11,
            "a table that starts larger than any plugin needs is refused",
            outside("(core module $t (table 9000000 funcref)) (core instance (instantiate $t))".into()),
            patient(),
            "too-complex",
        ),
        refused(
            11,
            "a table larger than the address space is refused",
            outside("(core module $t (table 4294967295 funcref)) (core instance (instantiate $t))".into()),
            patient(),
            "too-complex",
        ),
        refused(
            12,
            "a component of more instances than it may make does not start",
            outside(instances(80)),
            patient(),
            "instance-limit",
        ),
        refused(
            12,
            "a component of ten thousand instances does not start",
            outside(instances(10_000)),
            patient(),
            "invalid",
        ),
        fails(
            22,
            "a flood of handles ends at their limit",
            Guest {
                outside: "(type $mine (resource (rep i32))) (core func $mine-new (canon resource.new $mine))"
                    .into(),
                lowered: vec![("mine-new", "(param i32) (result i32)")],
                call: "(loop $more (drop (call $mine-new (i32.const 1))) (br $more)) unreachable".into(),
                ..reward()
            },
            patient(),
            "handle-limit",
        ),
        fails(
            23,
            "a flood of media ends at their limit",
            Guest::scoring(
                "(loop $more
                    (drop (call $media-new (i32.const 16) (i32.const 7) (i32.const 0) (i32.const 0)))
                    (br $more)) unreachable",
            )
            .with(Capability::Media),
            patient(),
            "handle-limit",
        ),
        fails(
            23,
            "media that a guest makes count as its memory",
            Guest {
                memory: "20",
                ..Guest::scoring(
                    "(loop $more
                        (drop (call $media-new (i32.const 16) (i32.const 7) (i32.const 0) (i32.const 1000000)))
                        (br $more)) unreachable",
                )
            }
            .with(Capability::Media),
            patient(),
            "memory-limit",
        ),
        fails(
            23,
            "media that a guest makes and drops still end at their limit",
            Guest::scoring(
                "(loop $more
                    (call $media-drop
                        (call $media-new (i32.const 16) (i32.const 7) (i32.const 0) (i32.const 0)))
                    (br $more)) unreachable",
            )
            .with(Capability::Media),
            patient(),
            "handle-limit",
        ),
    ]
}

#[test]
fn guests_that_want_too_much_room_do_not_get_it() {
    withstand(cases());
}
