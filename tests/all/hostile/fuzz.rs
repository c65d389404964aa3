//! Admission against bytes that nobody would write: a kept corpus, and thousands of mutations of
//! it that are the same on every run.
//!
//! The corpus is `tests/fixtures/admission-corpus`: small components, and what is almost one, each
//! under a name that begins with its answer. The fuzz target in `tests/fuzz` starts from the same
//! files; what it finds is kept by copying it there.

use super::guest::{Capability, Guest, OBEDIENT};
use super::*;
use std::fs;
use std::path::{Path, PathBuf};
use whet_plugin_host::{AdmissionCaps, validate};

const MUTATIONS: usize = 20_000;
/// Mutations that are still valid are also compiled and asked to describe themselves, up to here.
const INSPECTIONS: usize = 60;

fn corpus_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/admission-corpus")
}

/// Name and bytes of each kept file, by name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(corpus_dir()).unwrap().map(|file| file.unwrap().path());
    let read =
        |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap());
    let mut corpus: Vec<_> = files.map(read).collect();
    corpus.sort();
    corpus
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        // The numbers at which lengths, counts and opcodes change their meaning, as often as any other.
        const EDGES: [u8; 8] = [0x00, 0x01, 0x7f, 0x80, 0xff, 0x40, 0x0b, 0x60];
        if self.below(2) == 0 { EDGES[self.below(EDGES.len())] } else { self.next() as u8 }
    }
}

/// One to four changes of `bytes`: bits, bytes, stretches doubled, removed, moved or taken from
/// `other`, and lengths (most bytes below 0x80 are one).
fn mutate(bytes: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len());
        let end = (at + 1 + chance.below(64)).min(bytes.len());
        if bytes.is_empty() {
            bytes.push(chance.byte());
            continue;
        }
        match chance.below(9) {
            0 => bytes[at] ^= 1 << chance.below(8),
            1 => bytes[at] = chance.byte(),
            2 => bytes[at] = bytes[at].wrapping_add(1),
            3 => bytes[at] = bytes[at].wrapping_sub(1),
            4 => bytes.truncate(at),
            5 => {
                bytes.drain(at..end);
            }
            6 => {
                let stretch = bytes[at..end].to_vec();
                let to = chance.below(bytes.len());
                bytes.splice(to..to, stretch);
            }
            7 => {
                let from = chance.below(other.len());
                let stretch = other[from..(from + 1 + chance.below(256)).min(other.len())].to_vec();
                bytes.splice(at..end, stretch);
            }
            // A length or count that goes on for as long as one may.
            _ => {
                let long = [0xff, 0xff, 0xff, 0xff, chance.byte() & 0x0f];
                bytes.splice(at..at + 1, long);
            }
        }
    }
    bytes
}

#[test]
fn every_kept_file_is_answered_as_its_name_says() {
    let host = host();
    let corpus = corpus();
    assert!(corpus.len() >= 20, "{}", corpus.len());
    for (name, bytes) in corpus {
        let says = format!("the kept file {name}");
        let answer = validate(&bytes, &AdmissionCaps::default());
        // As in `truncated.in-a-body.wasm`: kind, then what it is.
        let expected = name.split('.').next().unwrap();
        match answer {
            Ok(_) => assert_eq!(expected, "valid", "{says}"),
            Err(error) => assert_eq!(error.kind(), expected, "{says}: {error}"),
        }
        let inspected = host.inspect(&bytes);
        assert!(expected == "valid" || inspected.is_err(), "{says}");
    }
}

#[test]
fn bytes_that_nobody_would_write_are_answered() {
    let corpus = corpus();
    let host = host();
    let good = load(&host, &Guest::scoring(OBEDIENT), &patient());
    let caps = AdmissionCaps::default();
    // Each batch is watched alone, so that a hang says where it was.
    let shared = Arc::new((corpus, host, caps));
    let (mut valid, mut inspected) = (0, 0);
    for batch in 0..20 {
        let shared = shared.clone();
        let room = INSPECTIONS - inspected;
        let (more_valid, more_inspected) = watched(&format!("batch {batch} of mutations"), move || {
            let (corpus, host, caps) = &*shared;
            let mut chance = Chance(batch);
            let (mut valid, mut inspected) = (0, 0);
            for i in 0..MUTATIONS / 20 {
                let (name, seed) = &corpus[chance.below(corpus.len())];
                let other = &corpus[chance.below(corpus.len())].1;
                let bytes = mutate(seed, other, &mut chance);
                let answer = std::panic::catch_unwind(|| validate(&bytes, caps));
                let Ok(answer) = answer else { panic!("mutation {i} of batch {batch}, from {name}, panics") };
                if answer.is_ok() {
                    valid += 1;
                    if inspected < room.min(INSPECTIONS / 20) && bytes != *seed {
                        inspected += 1;
                        // Any answer will do: a changed constant may make it loop or lie.
                        let _ = host.inspect(&bytes);
                    }
                }
            }
            (valid, inspected)
        });
        valid += more_valid;
        inspected += more_inspected;
    }
    assert!(valid > MUTATIONS / 100, "only {valid} mutations got as far as the compiler");
    assert!(inspected >= INSPECTIONS / 2, "only {inspected} mutations were inspected");
    assert_eq!(rewards(&good.score(&group("g", &["1"])).unwrap()), [Some(1.0)]);
}

#[test]
#[ignore = "rewrites tests/fixtures/admission-corpus: for whoever changes the contract"]
fn the_corpus_is_written_anew() {
    let good = Guest::reward().build();
    let every = [
        Capability::Log,
        Capability::Random,
        Capability::Store,
        Capability::Judge,
        Capability::Http,
        Capability::Media,
    ];
    let all = every.into_iter().fold(Guest::scoring(OBEDIENT), Guest::with).build();
    let half = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
    let nested = format!("{}{}", "(component ".repeat(12), ")".repeat(12));
    let deep = format!("{}{}", "(component ".repeat(20), ")".repeat(20));
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("valid.reward.wasm", good.clone()),
        ("valid.reward-with-every-import.wasm", all.clone()),
        ("valid.filter.wasm", Guest::filter().build()),
        ("valid.advantage.wasm", Guest::advantage().build()),
        ("valid.empty-component.wasm", text("(component)")),
        ("valid.nested.wasm", text(&nested)),
        ("valid.custom-section.wasm", text(r#"(component (@custom "x" "y"))"#)),
        ("valid.foreign-import.wasm", text(r#"(component (import "wasi:io/poll@0.2.0" (instance)))"#)),
        (
            "valid.resource.wasm",
            text("(component (type $r (resource (rep i32))) (core func (canon resource.new $r)))"),
        ),
        ("empty.wasm", Vec::new()),
        ("truncated.magic.wasm", b"\0as".to_vec()),
        ("truncated.header.wasm", good[..8].iter().take(6).copied().collect()),
        ("truncated.in-half.wasm", half(&good)),
        ("truncated.last-byte.wasm", all[..all.len() - 1].to_vec()),
        ("not-wasm.text", b"(component)".to_vec()),
        ("not-wasm.zeros", vec![0; 64]),
        ("not-wasm.archive", b"PK\x03\x04\x14\0\0\0\x08\0".to_vec()),
        ("not-a-component.module.wasm", text("(module (memory 1) (func (export \"f\")))")),
        ("precompiled.elf", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec()),
        ("invalid.version.wasm", b"\0asm\x0e\0\x01\0".to_vec()),
        ("unsupported-feature.start-of-nothing.wasm", b"\0asm\x0d\0\x01\0\x09\x03\0\0\0".to_vec()),
        ("invalid.section-of-no-kind.wasm", b"\0asm\x0d\0\x01\0\x2a\0".to_vec()),
        ("invalid.type-of-no-kind.wasm", b"\0asm\x0d\0\x01\0\x07\x02\x01\x10".to_vec()),
        ("too-complex.levels.wasm", text(&deep)),
        ("unsupported-feature.shared-memory.wasm", text("(component (core module (memory 1 1 shared)))")),
        ("unsupported-feature.memory64.wasm", text("(component (core module (memory i64 1)))")),
        ("unsupported-world.async.wasm", text(r#"(component (import "a" (func $f async)))"#)),
    ];
    fs::create_dir_all(corpus_dir()).unwrap();
    for (name, bytes) in files {
        fs::write(corpus_dir().join(name), bytes).unwrap();
    }
}
