//! Compiled code on disk: used when it is ours, never when it is not.

use super::guests::{Parts, group};
use crate::{Host, HostOptions, Use};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn host(dir: &Path) -> Host {
    Host::new(HostOptions { cache_dir: Some(dir.to_owned()), ..HostOptions::default() })
}

fn score(dir: &Path) -> Option<f64> {
    let plugin = host(dir).reward(&Parts::default().build(), &Use::default()).unwrap();
    plugin.score(&group(&["1"])).unwrap()[0].reward(&[])
}

fn compiled(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).unwrap().map(|f| f.unwrap().path());
    files.filter(|f| f.extension().is_some_and(|e| e == "cwasm")).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_second_process_finds_what_the_first_compiled() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("plugins");
    assert_eq!(score(&dir), Some(1.0));
    let files = compiled(&dir);
    assert_eq!(files.len(), 1);
    let written = fs::metadata(&files[0]).unwrap().modified().unwrap();
    assert_eq!(score(&dir), Some(1.0));
    assert_eq!(fs::metadata(&files[0]).unwrap().modified().unwrap(), written, "it was not compiled again");
    assert_eq!((mode(&dir), mode(&dir.join("secret")), mode(&files[0])), (0o700, 0o600, 0o600));
}

#[test]
fn a_changed_byte_anywhere_means_compiling_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("plugins");
    score(&dir);
    let file = compiled(&dir).remove(0);
    let good = fs::read(&file).unwrap();
    for at in [0, 31, 32, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&file, &bad).unwrap();
        assert_eq!(score(&dir), Some(1.0), "byte {at}");
        assert_ne!(fs::read(&file).unwrap(), bad, "byte {at} was replaced");
    }
    for bad in [&good[..0], &good[..16], &good[..good.len() - 9]] {
        fs::write(&file, bad).unwrap();
        assert_eq!(score(&dir), Some(1.0));
        assert_ne!(fs::read(&file).unwrap(), bad);
    }
}

#[test]
fn code_of_another_component_is_not_taken_for_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("plugins");
    score(&dir);
    let file = compiled(&dir).remove(0);
    let good = fs::read(&file).unwrap();
    let other = Parts { name: "other", ..Parts::default() }.build();
    host(&dir).reward(&other, &Use::default()).unwrap();
    let other = compiled(&dir).into_iter().find(|f| *f != file).unwrap();
    fs::copy(&other, &file).unwrap();
    let moved = fs::read(&file).unwrap();
    assert_eq!(score(&dir), Some(1.0));
    assert_ne!(fs::read(&file).unwrap(), moved);
    assert_ne!(moved, good);
}

#[test]
fn code_under_another_secret_is_not_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("plugins");
    score(&dir);
    let file = compiled(&dir).remove(0);
    let old = fs::read(&file).unwrap();
    for secret in [&[9u8; 32][..], b"short"] {
        fs::write(dir.join("secret"), secret).unwrap();
        assert_eq!(score(&dir), Some(1.0));
        assert_ne!(fs::read(&file).unwrap()[..32], old[..32]);
    }
}

#[test]
fn a_directory_that_others_can_reach_is_closed_and_a_link_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let open = root.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(score(&open), Some(1.0));
    assert_eq!(mode(&open), 0o700);

    let target = root.path().join("target");
    fs::create_dir(&target).unwrap();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert_eq!(score(&link), Some(1.0));
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}
