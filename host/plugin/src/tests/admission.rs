//! What does not come in, and the name of the reason.

use super::guests::{Parts, RANDOM, STORE, group, host, scoring};
use crate::{AdmissionCaps, Digest, Grants, Host, HostOptions, LoadError, Use, validate};

fn refuse(bytes: &[u8]) -> LoadError {
    host().reward(bytes, &Use::default()).err().expect("admitted")
}

fn text(component: &str) -> Vec<u8> {
    wat::parse_str(component).unwrap()
}

#[test]
fn what_is_not_a_component_is_told_apart() {
    let good = Parts::default().build();
    let mut cut_in_a_body = good.clone();
    cut_in_a_body.truncate(good.len() / 2);
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xff);
    let table: [(&[u8], &str); 12] = [
        (b"", "empty"),
        (b"\0as", "truncated"),
        (b"\0asm\x0d", "truncated"),
        (&good[..good.len() - 1], "truncated"),
        (&cut_in_a_body, "truncated"),
        (b"PK\x03\x04 an archive", "not-wasm"),
        (b"hello", "not-wasm"),
        (&[0; 1 << 20], "not-wasm"),
        (&text("(module (func))"), "not-a-component"),
        (b"\x7fELF\x02\x01\x01", "precompiled"),
        (b"\0asm\x07\0\0\0", "invalid"),
        (&damaged, "invalid"),
    ];
    for (bytes, kind) in table {
        let error = refuse(bytes);
        let start = &bytes[..bytes.len().min(12)];
        assert_eq!(error.kind(), kind, "{start:?}: {error}");
    }
}

#[test]
fn a_component_that_lost_its_end_is_refused_wherever_it_was_cut() {
    let good = Parts::default().build();
    let host = host();
    for end in 0..good.len() {
        // What follows the last export are custom sections, without which it is as good.
        if let Ok(seen) = host.inspect(&good[..end]) {
            assert!(end > good.len() * 3 / 4, "{end} of {} bytes", good.len());
            assert_eq!(seen.descriptor.name, "guest");
        }
    }
}

#[test]
fn a_component_with_any_byte_changed_is_answered_without_a_panic() {
    let good = Parts::default().build();
    let caps = AdmissionCaps::default();
    let host = host();
    for at in 0..good.len() {
        for mask in [0x01, 0x40, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= mask;
            // Some changes are harmless, in names or in data; a few of those go all the way.
            if validate(&bad, &caps).is_ok() && at % 64 == 0 {
                let _ = host.inspect(&bad);
            }
        }
    }
}

#[test]
fn types_that_double_with_every_name_are_refused() {
    let mut bomb = String::from("(component (type (tuple u8 u8))");
    for i in 0..64 {
        bomb += &format!("(type (tuple {i} {i}))");
    }
    let bomb = text(&(bomb + ")"));
    assert!(bomb.len() < 1000);
    assert_eq!(refuse(&bomb).kind(), "invalid");
}

#[test]
fn compiled_code_is_never_accepted() {
    let engine = wasmtime::Engine::default();
    let code = engine.precompile_component(&Parts::default().build()).unwrap();
    assert_eq!(refuse(&code), LoadError::Precompiled);
}

#[test]
fn a_file_over_the_size_cap_is_not_read() {
    let admission = AdmissionCaps { bytes: 1000, ..AdmissionCaps::default() };
    let host = Host::new(HostOptions { admission, ..HostOptions::default() });
    let error = host.inspect(&vec![0; 1001]).unwrap_err();
    assert_eq!(error, LoadError::TooLarge { size: 1001, limit: 1000 });
}

#[test]
fn features_that_guests_may_not_have_are_named() {
    let table = [
        ("(component (core module (memory i64 1)))", "64-bit memory"),
        ("(component (core module (memory 1 1 shared)))", "shared memory"),
        ("(component (core module (table i64 1 funcref)))", "64-bit tables"),
        (r#"(component (import "a" (func $f async)))"#, ""),
    ];
    for (component, feature) in table {
        let error = refuse(&text(component));
        let expected = if feature.is_empty() { "unsupported-world" } else { "unsupported-feature" };
        assert_eq!(error.kind(), expected, "{component}: {error}");
        assert!(error.to_string().contains(feature), "{error}");
    }
}

#[test]
fn imports_need_a_grant_and_strangers_have_none() {
    let random =
        Parts { imports: RANDOM, body: &scoring("(f64.convert_i64_u (call $random))"), ..Parts::default() };
    assert_eq!(refuse(&random.build()), LoadError::NotGranted("random".into()));
    let other = Use { grants: Grants::parse(["store"]).unwrap(), ..Use::default() };
    assert_eq!(host().reward(&random.build(), &other).err().unwrap().kind(), "not-granted");
    let granted = Use { grants: Grants::parse(["random"]).unwrap(), ..Use::default() };
    assert!(host().reward(&random.build(), &granted).is_ok());
    let unused = Parts { imports: STORE, ..Parts::default() };
    assert!(host().reward(&unused.build(), &Use::default()).is_err(), "an import counts, used or not");

    let table = [
        (r#"(component (import "wasi:sockets/tcp@0.2.6" (instance)))"#, "forbidden-import"),
        (r#"(component (import "wasi:filesystem/types@0.2.0" (instance)))"#, "forbidden-import"),
        (r#"(component (import "whet:plugin/secrets@0.1.0" (instance)))"#, "forbidden-import"),
        (r#"(component (import "whet:plugin/log@0.2.0" (instance)))"#, "forbidden-import"),
        (r#"(component (import "whet:plugin/log" (instance)))"#, "forbidden-import"),
        (r#"(component (import "f" (func)))"#, "forbidden-import"),
        (r#"(component (import "wasi:clocks/monotonic-clock@0.3.0" (instance)))"#, "unsupported-world"),
    ];
    for (component, kind) in table {
        assert_eq!(refuse(&text(component)).kind(), kind, "{component}");
    }
}

#[test]
fn the_world_must_be_the_one_that_the_recipe_uses() {
    let reward = Parts::default().build();
    let error = host().filter(&reward, &Use::default()).err().unwrap();
    assert_eq!(error.to_string(), "the component is a reward plugin; needed is a filter plugin");
    assert_eq!(host().advantage(&reward, &Use::default()).err().unwrap().kind(), "unsupported-world");
    assert_eq!(
        refuse(&text("(component)")).to_string(),
        "the component is no plugin of this host; needed is a reward plugin"
    );
    // The right name with another type.
    let fake = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $score (export "score" (func $f)))
        (instance $meta (export "describe" (func $f)) (export "configure" (func $f)))
        (export "whet:plugin/meta@0.1.0" (instance $meta))
        (export "whet:plugin/reward@0.1.0" (instance $score)))"#;
    let error = refuse(&text(fake));
    assert_eq!(error.kind(), "unsupported-world", "{error}");
}

#[test]
fn a_pin_admits_its_component_and_no_other() {
    let bytes = Parts::default().build();
    let pinned = |pin| Use { pin: Some(pin), ..Use::default() };
    assert!(host().reward(&bytes, &pinned(Digest::of(&bytes))).is_ok());
    let error = host().reward(&bytes, &pinned(Digest([7; 32]))).err().unwrap();
    assert_eq!(error, LoadError::DigestMismatch { pinned: Digest([7; 32]), found: Digest::of(&bytes) });
}

#[test]
fn compile_bombs_are_refused_before_the_compiler_sees_them() {
    let functions = format!("(component (core module {}))", "(func)".repeat(100_001));
    let body = format!("(component (core module (func {})))", "(drop (i32.const 123456789))".repeat(250_000));
    let calls = format!("(component (core module (func $f {})))", "(call $f)".repeat(60_000));
    let locals = format!(
        "(component (core module (func (local {}) {})))",
        "i32 ".repeat(5_000),
        "(block)".repeat(20_000)
    );
    let targets = "0 ".repeat(100_001);
    let branches = format!("(component (core module (func (block (br_table {targets} 0 (i32.const 0))))))");
    let types = format!("(component {})", "(type (list u8))".repeat(50_001));
    let nested = format!("{}{}", "(component ".repeat(20), ")".repeat(20));
    let instances =
        format!("(component (core module $m) {})", "(core instance (instantiate $m))".repeat(100_001));
    let names = format!(r#"(component (@custom "names" "{}"))"#, "x".repeat(9 << 20));
    for bomb in [functions, body, calls, locals, branches, types, nested, instances, names] {
        let error = refuse(&text(&bomb));
        assert_eq!(error.kind(), "too-complex", "{}: {error}", &bomb[..60]);
    }
}

#[test]
fn other_worlds_load_by_their_own_door() {
    let parts = Parts {
        world: "advantage-plugin",
        declares: "",
        body: r#"(func (export "whet:plugin/advantage@0.1.0#estimate") (param i32) (result i32) (i32.const 1024))"#,
        ..Parts::default()
    };
    let plugin = host().advantage(&parts.build(), &Use::default()).unwrap();
    let batch = crate::Batch {
        sample_ids: vec!["a".into()],
        groups: vec![0],
        rewards: vec![1.0],
        lengths: vec![2],
        mask: vec![1, 1],
        ..crate::Batch::default()
    };
    // All zeros: `ok(per-sample([]))`.
    assert_eq!(plugin.estimate(&batch).unwrap_err().kind(), "wrong-length");
    let wrong = crate::Batch { rewards: vec![], ..batch };
    assert_eq!(plugin.estimate(&wrong).unwrap_err().kind(), "bad-batch");

    let parts = Parts {
        world: "filter-plugin",
        declares: "",
        body: r#"(func (export "whet:plugin/filter@0.1.0#keep-rows") (param i32 i32) (result i32) (i32.const 1024))
                 (func (export "whet:plugin/filter@0.1.0#keep-groups") (param i32 i32) (result i32) (i32.const 1024))"#,
        ..Parts::default()
    };
    let plugin = host().filter(&parts.build(), &Use::default()).unwrap();
    let group = group(&["a"]);
    let scored = crate::ScoredGroup { group: &group, rewards: &[None] };
    assert_eq!(plugin.keep_groups(&[scored]).unwrap_err().kind(), "wrong-length");
    assert_eq!(plugin.keep_groups(&[]), Ok(vec![]));
    assert_eq!(plugin.keep_rows(&[]), Ok(vec![]));
}
