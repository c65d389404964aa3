//! Components that must not come in, told apart by what is wrong with them, before any code of
//! theirs is compiled.

use super::guest::Guest;
use super::*;
use whet_plugin_host::{AdmissionCaps, Digest, validate};

/// A component that is nothing but one import.
fn importing(name: &str) -> Vec<u8> {
    text(&format!(r#"(component (import "{name}" (instance)))"#))
}

/// A component that is nothing but one core module.
fn core(items: &str) -> Vec<u8> {
    text(&format!("(component (core module {items}))"))
}

/// The guest with a section that means nothing, named `name`.
fn with_custom_section(component: &[u8], name: &str, bytes: usize) -> Vec<u8> {
    let leb = |mut n: usize| {
        let mut out = Vec::new();
        loop {
            let byte = (n & 0x7f) as u8;
            n >>= 7;
            out.push(if n == 0 { byte } else { byte | 0x80 });
            if n == 0 {
                return out;
            }
        }
    };
    let mut section = leb(name.len());
    section.extend(name.as_bytes());
    section.resize(section.len() + bytes, b'x');
    [component, &[0], &leb(section.len()), &section].concat()
}

pub fn cases() -> Vec<Case> {
    let good = Guest::reward().build();
    let mut cases = garbage(&good);
    cases.extend(imports());
    cases.extend(bombs(&good));
    cases.extend(features());
    cases.extend([
        refused(
            44,
            "a component that is not the pinned one is refused",
            good.clone(),
            Use { pin: Some(Digest([7; 32])), ..patient() },
            "digest-mismatch",
        ),
        refused(
            44,
            "an older component is not taken for the pinned one",
            Guest { name: "older", ..Guest::reward() }.build(),
            Use { pin: Some(Digest::of(&good)), ..patient() },
            "digest-mismatch",
        ),
        refused(
            44,
            "a component with one more byte in a section that means nothing is not the pinned one",
            with_custom_section(&good, "x", 1),
            Use { pin: Some(Digest::of(&good)), ..patient() },
            "digest-mismatch",
        ),
        refused(
            44,
            "a component of another world is refused",
            Guest::filter().build(),
            patient(),
            "unsupported-world",
        ),
        refused(
            44,
            "a component of no world is refused",
            text("(component)"),
            patient(),
            "unsupported-world",
        ),
        scene(47, "names that a guest gives its functions reach no terminal", hostile_names),
    ]);
    cases
}

fn garbage(good: &[u8]) -> Vec<Case> {
    let mut reordered = good[..8].to_vec();
    reordered.extend([9, 3, 0, 0, 0]);
    let table: [(u8, &'static str, Vec<u8>, &str); 14] = [
        (28, "nothing at all is refused", Vec::new(), "empty"),
        (28, "a core module is refused", text("(module (func))"), "not-a-component"),
        (28, "text is refused", b"(component)".to_vec(), "not-wasm"),
        (28, "an archive is refused", b"PK\x03\x04\x14\0\0\0\x08\0".to_vec(), "not-wasm"),
        (28, "a compressed component is refused", b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec(), "not-wasm"),
        (28, "a megabyte of zeros is refused", vec![0; 1 << 20], "not-wasm"),
        // Not touched: its size alone is looked at.
        (28, "a gigabyte of zeros is refused", vec![0; 1 << 30], "too-large"),
        (28, "four bytes are refused", b"\0asm".to_vec(), "truncated"),
        (28, "half a component is refused", good[..good.len() / 2].to_vec(), "truncated"),
        (28, "a component without its last byte is refused", good[..good.len() - 1].to_vec(), "truncated"),
        (28, "a component of a version to come is refused", b"\0asm\x0e\0\x01\0".to_vec(), "invalid"),
        (28, "a component that starts before it has anything is refused", reordered, "unsupported-feature"),
        (29, "a program is refused", b"\x7fELF\x02\x01\x01\0".to_vec(), "precompiled"),
        (
            28,
            "a component behind a mark of its encoding is refused",
            [b"\xef\xbb\xbf", good].concat(),
            "not-wasm",
        ),
    ];
    let mut cases: Vec<Case> =
        table.map(|(number, says, bytes, kind)| refused(number, says, bytes, patient(), kind)).into();
    cases.push(scene(29, "machine code out of the host's own cache is refused", |_| {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("plugins");
        let host = Host::new(HostOptions { cache_dir: Some(dir.clone()), ..HostOptions::default() });
        load(&host, &Guest::reward(), &patient());
        let files = std::fs::read_dir(&dir).unwrap().map(|f| f.unwrap().path());
        let file = files.into_iter().find(|f| f.extension().is_some_and(|e| e == "cwasm")).unwrap();
        let file = std::fs::read(file).unwrap();
        // Behind the code that vouches for it.
        assert_eq!(host.reward(&file[32..], &patient()).err().unwrap().kind(), "precompiled");
        assert_eq!(host.reward(&file, &patient()).err().unwrap().kind(), "not-wasm");
    }));
    cases.push(scene(28, "a component is refused wherever it was cut", |host| {
        let good = Guest::filter().build();
        for length in 0..good.len() {
            let error = host.reward(&good[..length], &patient()).err().unwrap();
            // Between two sections what is left looks whole: no plugin, or a module without its code.
            let kinds = ["empty", "truncated", "unsupported-world", "invalid"];
            assert!(kinds.contains(&error.kind()), "{length}: {error}");
        }
    }));
    cases
}

fn imports() -> Vec<Case> {
    let forbidden = [
        (26, "an import that no contract knows is refused", "evil:corp/everything@1.0.0"),
        (
            26,
            "an import of the contract's package that it does not have is refused",
            "whet:plugin/secrets@0.1.0",
        ),
        (26, "an import of a contract to come is refused", "whet:plugin/log@0.2.0"),
        (26, "an import of a contract without a version is refused", "whet:plugin/log"),
        (27, "a guest that wants sockets is refused", "wasi:sockets/tcp@0.2.6"),
        (27, "a guest that wants to look up names is refused", "wasi:sockets/ip-name-lookup@0.2.6"),
        (27, "a guest that wants requests of its own is refused", "wasi:http/outgoing-handler@0.2.6"),
        (36, "a guest that wants files is refused", "wasi:filesystem/types@0.2.6"),
        (
            36,
            "a guest that wants folders that were opened for it is refused",
            "wasi:filesystem/preopens@0.2.6",
        ),
        (27, "a guest that wants the environment is refused", "wasi:cli/environment@0.2.6"),
        (40, "a guest that wants the time is refused", "wasi:clocks/wall-clock@0.2.6"),
        (40, "a guest that wants chance of its own is refused", "wasi:random/random@0.2.6"),
        (41, "a guest that wants to be an environment's host is refused", "whet:plugin/environment@0.1.0"),
    ];
    let mut cases: Vec<Case> = forbidden
        .map(|(number, says, name)| refused(number, says, importing(name), patient(), "forbidden-import"))
        .into();
    let not_interfaces = [
        ("an imported function is refused", r#"(component (import "f" (func)))"#),
        ("an imported core module is refused", r#"(component (import "m" (core module)))"#),
        ("an imported component is refused", r#"(component (import "c" (component)))"#),
        (
            "a core module under the name of the log is refused",
            r#"(component (import "whet:plugin/log@0.1.0" (component)))"#,
        ),
    ];
    cases.extend(
        not_interfaces
            .map(|(says, component)| refused(26, says, text(component), patient(), "forbidden-import")),
    );
    cases.extend([
        refused(
            46,
            "a guest of asynchronous WASI is refused",
            importing("wasi:clocks/monotonic-clock@0.3.0"),
            patient(),
            "unsupported-world",
        ),
        refused(
            46,
            "an asynchronous import is refused",
            text(r#"(component (import "a" (func $f async)))"#),
            patient(),
            "unsupported-world",
        ),
        refused(
            46,
            "an asynchronous export is refused",
            text(
                r#"(component
                    (core module $m (func (export "f") (result i32) unreachable)
                        (func (export "cb") (param i32 i32 i32) (result i32) unreachable))
                    (core instance $i (instantiate $m))
                    (func (export "f") async (canon lift (core func $i "f") async (callback (core func $i "cb")))))"#,
            ),
            patient(),
            "unsupported-world",
        ),
        refused(
            26,
            "a capability under its right name and another type is refused",
            {
                let odd = r#"(import "whet:plugin/log@0.1.0" (instance (export "log" (func (param "n" u64)))))"#;
                text(&Guest::reward().text().replacen("(component", &format!("(component {odd}"), 1))
            },
            patient(),
            "unsupported-world",
        ),
        refused(
            26,
            "a function of a capability that the contract does not have is refused",
            {
                let odd = r#"(import "whet:plugin/log@0.1.0" (instance (export "erase" (func))))"#;
                text(&Guest::reward().text().replacen("(component", &format!("(component {odd}"), 1))
            },
            patient(),
            "unsupported-world",
        ),
    ]);
    cases
}

/// Small or plain to read, and ruinous to compile.
fn bombs(good: &[u8]) -> Vec<Case> {
    let doubling: String = (0..64).map(|i| format!("(type (tuple {i} {i}))")).collect();
    let table = [
        (30, "half a million functions are refused", core(&"(func)".repeat(500_000))),
        (
            30,
            "a function of a megabyte is refused",
            core(&format!("(func {})", "(drop (i32.const 123456789))".repeat(250_000))),
        ),
        (
            30,
            "a branch to a hundred thousand places is refused",
            core(&format!("(func (block (br_table {} 0 (i32.const 0))))", "0 ".repeat(100_001))),
        ),
        (
            30,
            "fifty thousand types are refused",
            text(&format!("(component {})", "(type (list u8))".repeat(50_001))),
        ),
        (
            30,
            "fifty thousand types of functions are refused",
            core(&"(type (func (param i32)))".repeat(50_001)),
        ),
        (
            30,
            "components within components within components are refused",
            text(&format!("{}{}", "(component ".repeat(40), ")".repeat(40))),
        ),
        (
            12,
            "a hundred thousand instances are refused",
            text(&format!(
                "(component (core module $m) {})",
                "(core instance (instantiate $m))".repeat(100_001)
            )),
        ),
        (47, "thirty megabytes that mean nothing are refused", with_custom_section(good, "debug", 30 << 20)),
    ];
    let mut cases: Vec<Case> =
        table.into_iter().map(|(n, says, bytes)| refused(n, says, bytes, patient(), "too-complex")).collect();
    cases.push(refused(
        30,
        "types that double with every line are refused",
        text(&format!("(component (type (tuple u8 u8)) {doubling})")),
        patient(),
        "invalid",
    ));
    cases.push(scene(
        30,
        "a component that compiles too slowly is given up, and the next one compiles",
        |_| {
            let none = AdmissionCaps { compile_time: Duration::ZERO, ..AdmissionCaps::default() };
            let hurried = Host::new(HostOptions { admission: none, ..HostOptions::default() });
            let body = "(local.set 0 (i32.mul (local.get 0) (i32.const 3)))".repeat(20_000);
            let heavy = Guest { libc: format!("(func (local i32) {body})"), ..Guest::reward() };
            let error = hurried.reward(&heavy.build(), &patient()).err().unwrap();
            assert_eq!(error.kind(), "compile-timeout");
            assert_eq!(hurried.inspect(&Guest::reward().build()).err().unwrap().kind(), "compile-timeout");
        },
    ));
    cases
}

/// WebAssembly beyond what plugins need.
fn features() -> Vec<Case> {
    let table = [
        (48, "a shared memory is refused", "(memory 1 1 shared)", "unsupported-feature"),
        (48, "a memory of 64 bits is refused", "(memory i64 1)", "unsupported-feature"),
        (48, "a table of 64 bits is refused", "(table i64 1 funcref)", "unsupported-feature"),
        (
            48,
            "an imported shared memory is refused",
            r#"(import "a" "b" (memory 1 1 shared))"#,
            "unsupported-feature",
        ),
        (
            48,
            "an atomic operation is refused",
            "(memory 1) (func (drop (i32.atomic.load (i32.const 0))))",
            "unsupported-feature",
        ),
        (48, "two memories in one module are refused", "(memory 1) (memory 1)", "invalid"),
        (48, "an exception is refused", "(tag) (func (throw 0))", "unsupported-feature"),
        (48, "a garbage-collected structure is refused", "(type (struct (field i32)))", "invalid"),
        (48, "pages of another size are refused", "(memory 1 1 (pagesize 1))", "invalid"),
    ];
    let mut cases: Vec<Case> =
        table.map(|(n, says, items, kind)| refused(n, says, core(items), patient(), kind)).into();
    let start = r#"(component
        (import "whet:plugin/log@0.1.0" (instance))
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (start $f))"#;
    if let Ok(bytes) = wat::parse_str(start) {
        cases.push(refused(
            3,
            "a component that starts by itself is refused",
            bytes,
            patient(),
            "unsupported-feature",
        ));
    }
    cases
}

/// A name section of the guest's own making, and one that is torn.
fn hostile_names(host: &Host) {
    let named = "(@custom \"name\" \"\\01\\0b\\01\\00\\08\\1b[31mred\\0a\")";
    let torn = "(@custom \"name\" \"\\01\\ff\\ff\\ff\\ff\\0f\\00\")";
    for names in [named, torn] {
        let guest = Guest { main: names.to_owned(), ..Guest::scoring("unreachable") };
        let error = load(host, &guest, &patient()).score_once(&group("g", &["a"])).unwrap_err();
        assert_eq!(error.kind(), "trapped");
        assert!(!error.to_string().contains("red"), "{error}");
    }
}

#[test]
fn components_that_mean_harm_do_not_come_in() {
    withstand(cases());
}

#[test]
fn what_is_refused_without_a_recipe_is_refused_by_inspection_with_the_same_name() {
    watched("inspection of components that mean harm", || {
        let host = host();
        for case in cases() {
            let Attack::Refused { bytes, usage, kind } = case.attack else { continue };
            if usage.pin.is_some() || case.says == "a component of another world is refused" {
                continue;
            }
            let error = host.inspect(&bytes).err().unwrap_or_else(|| panic!("{}: came in", case.says));
            assert_eq!(error.kind(), kind, "{}: {error}", case.says);
        }
    });
}

#[test]
fn every_cap_is_a_cap() {
    let good = Guest::reward().build();
    let caps = AdmissionCaps::default;
    assert!(validate(&good, &caps()).is_ok());
    let tight = [
        AdmissionCaps { bytes: good.len() - 1, ..caps() },
        AdmissionCaps { functions: 3, ..caps() },
        AdmissionCaps { function_bytes: 3, ..caps() },
        AdmissionCaps { types: 3, ..caps() },
        AdmissionCaps { definitions: 3, ..caps() },
        AdmissionCaps { depth: 0, ..caps() },
    ];
    for caps in tight {
        let kind = validate(&good, &caps).unwrap_err().kind();
        assert!(["too-large", "too-complex"].contains(&kind), "{kind}: {caps:?}");
    }
}
