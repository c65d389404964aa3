//! Compiled code on disk that someone has changed: it is compiled again, never run.

use super::guest::{Guest, scores};
use super::*;
use std::fs;
use std::path::{Path, PathBuf};
use whet_plugin_host::Digest;

pub fn cases() -> Vec<Case> {
    vec![
        scene(45, "compiled code with any byte changed is compiled again", |_| {
            spoil(|good| {
                let places = [0, 31, 32, 33, good.len() / 3, good.len() / 2, good.len() - 1];
                places.map(|at| flipped(good, at)).into()
            });
        }),
        scene(45, "compiled code that lost its end, or all of it, is compiled again", |_| {
            spoil(|good| [0, 1, 32, 40, good.len() - 1].map(|length| good[..length].to_vec()).into());
        }),
        scene(45, "compiled code with something behind it is compiled again", |_| {
            spoil(|good| vec![[good, b"\0"].concat(), [good, good].concat()]);
        }),
        scene(45, "compiled code that nobody vouches for is compiled again", |_| {
            spoil(|good| vec![good[32..].to_vec(), [&[0; 32], &good[32..]].concat(), b"\x7fELF".to_vec()]);
        }),
        scene(
            45,
            "compiled code of another plugin under this one's name is compiled again",
            other_plugins_code,
        ),
        scene(
            45,
            "compiled code of another version under this one's name is compiled again",
            other_versions_code,
        ),
        scene(45, "compiled code under another secret is compiled again", other_secret),
        scene(45, "a plugin in the cache is still held against its pin, its grants and its world", |_| {
            let dir = Dir::new();
            let bytes = Guest::reward().with(guest::Capability::Random).build();
            let host = dir.host();
            host.reward(&bytes, &granted("random")).unwrap();
            let host = dir.host();
            assert_eq!(host.reward(&bytes, &patient()).err().unwrap().kind(), "not-granted");
            assert_eq!(host.filter(&bytes, &granted("random")).err().unwrap().kind(), "unsupported-world");
            let pinned = Use { pin: Some(Digest([1; 32])), ..granted("random") };
            assert_eq!(host.reward(&bytes, &pinned).err().unwrap().kind(), "digest-mismatch");
        }),
        scene(45, "a cache that cannot be written or read costs time and nothing else", unusable_caches),
        scene(45, "hosts that fill one cache at the same time do not disturb each other", |_| {
            let dir = Dir::new();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| assert_eq!(dir.score(), 1.0));
                }
            });
            assert_eq!((dir.compiled().len(), dir.score()), (1, 1.0));
        }),
    ]
}

/// A cache directory and the guest that scores 1.
struct Dir {
    _root: tempfile::TempDir,
    path: PathBuf,
}

impl Dir {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Dir { path: root.path().join("plugins"), _root: root }
    }

    /// A host that has nothing in memory yet.
    fn host(&self) -> Host {
        Host::new(HostOptions {
            cache_dir: Some(self.path.clone()),
            instances: POOL,
            ..HostOptions::default()
        })
    }

    fn score(&self) -> f64 {
        score(&self.host(), &Guest::reward())
    }

    fn compiled(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.path).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "cwasm")).collect();
        files.sort();
        files
    }
}

fn score(host: &Host, guest: &Guest) -> f64 {
    let outcomes = load(host, guest, &patient()).score(&group("g", &["a"])).unwrap();
    rewards(&outcomes)[0].unwrap()
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x10;
    bytes
}

/// Puts each of the spoilt files in the place of the good one: the plugin works, and the file is
/// replaced by one that the next host uses.
fn spoil(variants: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    let dir = Dir::new();
    assert_eq!(dir.score(), 1.0);
    let file = dir.compiled().remove(0);
    let good = fs::read(&file).unwrap();
    for spoilt in variants(&good) {
        fs::write(&file, &spoilt).unwrap();
        assert_eq!(dir.score(), 1.0);
        let now = fs::read(&file).unwrap();
        assert!(now != spoilt, "the spoilt file of {} bytes is still there", spoilt.len());
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(dir.score(), 1.0);
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written, "the new file is used");
    }
}

/// The other plugin would score 2.
fn other_plugins_code(_: &Host) {
    let dir = Dir::new();
    assert_eq!(dir.score(), 1.0);
    let mine = dir.compiled().remove(0);
    assert_eq!(score(&dir.host(), &Guest::scoring(scores("(f64.const 2)"))), 2.0);
    let other = dir.compiled().into_iter().find(|file| *file != mine).unwrap();
    fs::copy(&other, &mine).unwrap();
    assert_eq!(dir.score(), 1.0);
    assert_eq!(score(&dir.host(), &Guest::scoring(scores("(f64.const 2)"))), 2.0);
}

/// The name of a file tells the versions and the machine that its code is for, and is vouched for
/// with the code.
fn other_versions_code(_: &Host) {
    let dir = Dir::new();
    assert_eq!(dir.score(), 1.0);
    let mine = dir.compiled().remove(0);
    let code = fs::read(&mine).unwrap();
    let deterministic = load(&dir.host(), &Guest::reward(), &fuelled(1_000_000));
    assert!(rewards(&deterministic.score(&group("g", &["a"])).unwrap()) == [Some(1.0)]);
    let other = dir.compiled().into_iter().find(|file| *file != mine).unwrap();
    // Code without fuel in the place of code with fuel would never run out of it.
    fs::write(&other, &code).unwrap();
    let deterministic = load(&dir.host(), &Guest::reward(), &fuelled(1_000_000));
    deterministic.score(&group("g", &["a"])).unwrap();
    assert!(deterministic.stats().fuel > 0);
    assert!(fs::read(&other).unwrap() != code);
}

fn other_secret(_: &Host) {
    let dir = Dir::new();
    assert_eq!(dir.score(), 1.0);
    let file = dir.compiled().remove(0);
    let secret = dir.path.join("secret");
    for foreign in [vec![9; 32], b"short".to_vec(), Vec::new()] {
        let before = fs::read(&file).unwrap();
        fs::write(&secret, &foreign).unwrap();
        assert_eq!(dir.score(), 1.0);
        assert!(fs::read(&file).unwrap()[..32] != before[..32], "{foreign:?}");
    }
}

fn unusable_caches(_: &Host) {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let folder_in_the_way = Dir::new();
    folder_in_the_way.score();
    let compiled = folder_in_the_way.compiled().remove(0);
    fs::remove_file(&compiled).unwrap();
    fs::create_dir(&compiled).unwrap();
    let paths: [&Path; 4] =
        [&file, &file.join("below"), Path::new("/proc/whet-plugins"), &folder_in_the_way.path];
    for path in paths {
        let host = Host::new(HostOptions { cache_dir: Some(path.to_owned()), ..HostOptions::default() });
        assert_eq!(score(&host, &Guest::reward()), 1.0, "{}", path.display());
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "in the way");
}

#[test]
fn compiled_code_that_someone_changed_is_never_run() {
    withstand(cases());
}
