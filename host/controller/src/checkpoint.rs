//! Checkpoints: folders that are either whole or not there.
//!
//! A checkpoint is filled in `checkpoints/.writing-…`, every file is flushed to the disk, a manifest with
//! the size and checksum of every file is written last, and the folder is renamed to `step-000010`. One
//! that does not match its manifest (a torn disk, a kill within deletion) counts as not there, and the one
//! before it is used. Of the files only the smallest is known here, the progress.

use crate::RunError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use whet_plugin_host::Kept;

const MANIFEST: &str = "manifest.json";
const PROGRESS: &str = "progress.json";
const KEPT: &str = "kept.json";
const WRITING: &str = ".writing-";
const LEAVING: &str = ".leaving-";

/// The `checkpoints/` folder of a run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    dir: PathBuf,
    keep: usize,
}

/// A whole checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Steps behind it.
    pub step: u64,
    /// Its folder.
    pub path: PathBuf,
}

/// Where a run stands beside its weights: `progress.json` of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Prompts used, in the order of the data; dynamic sampling uses more of them than it trains on.
    pub position: u64,
    /// Weight of the KL penalty, which may follow the divergence.
    pub kl_coefficient: f64,
}

impl Progress {
    /// Writes it into the folder of a checkpoint.
    pub fn save(&self, dir: &Path) -> Result<(), RunError> {
        let path = dir.join(PROGRESS);
        let text = serde_json::to_string(self).map_err(io::Error::from);
        text.and_then(|text| fs::write(&path, text)).map_err(RunError::write(&path))
    }

    /// Reads it from there.
    pub fn load(dir: &Path) -> Result<Self, RunError> {
        let path = dir.join(PROGRESS);
        let text = fs::read(&path).map_err(RunError::read(&path))?;
        serde_json::from_slice(&text).map_err(|e| RunError::Malformed { path, reason: e.to_string() })
    }
}

/// Writes what plugins keep into the folder of a checkpoint: `kept.json`, values in base64.
pub fn save_kept(kept: &Kept, dir: &Path) -> Result<(), RunError> {
    let coded: BTreeMap<&String, BTreeMap<&String, String>> = kept
        .iter()
        .map(|(digest, entries)| (digest, entries.iter().map(|(key, v)| (key, BASE64.encode(v))).collect()))
        .collect();
    let path = dir.join(KEPT);
    let text = serde_json::to_string(&coded).map_err(io::Error::from);
    text.and_then(|text| fs::write(&path, text)).map_err(RunError::write(&path))
}

/// Reads what [`save_kept`] wrote; nothing was kept where there is no such file.
pub fn load_kept(dir: &Path) -> Result<Kept, RunError> {
    let path = dir.join(KEPT);
    if !path.exists() {
        return Ok(Kept::new());
    }
    let text = fs::read(&path).map_err(RunError::read(&path))?;
    let malformed = |reason: String| RunError::Malformed { path: path.clone(), reason };
    let coded: BTreeMap<String, BTreeMap<String, String>> =
        serde_json::from_slice(&text).map_err(|e| malformed(e.to_string()))?;
    let value = |(key, text): (String, String)| match BASE64.decode(&text) {
        Ok(value) => Ok((key, value)),
        Err(e) => Err(malformed(format!("`{key}`: {e}"))),
    };
    let of = |(digest, entries): (String, BTreeMap<String, String>)| {
        Ok((digest, entries.into_iter().map(value).collect::<Result<_, _>>()?))
    };
    coded.into_iter().map(of).collect()
}

/// What `manifest.json` says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    step: u64,
    /// By path relative to the checkpoint, with `/`.
    files: BTreeMap<String, Checksum>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Checksum {
    size: u64,
    crc32c: String,
}

impl Checkpoints {
    /// The checkpoints in `dir`, of which the last `keep` (at least one) stay. Leftovers of a kill go.
    pub fn open(dir: &Path, keep: usize) -> Result<Self, RunError> {
        fs::create_dir_all(dir).map_err(RunError::write(dir))?;
        for entry in fs::read_dir(dir).map_err(RunError::read(dir))? {
            let entry = entry.map_err(RunError::read(dir))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(WRITING) || name.starts_with(LEAVING) {
                fs::remove_dir_all(entry.path()).map_err(RunError::write(&entry.path()))?;
            }
        }
        Ok(Checkpoints { dir: dir.to_owned(), keep: keep.max(1) })
    }

    /// The checkpoints in `dir`, for reading alone.
    pub fn look(dir: &Path) -> Self {
        Checkpoints { dir: dir.to_owned(), keep: usize::MAX }
    }

    /// Writes the checkpoint of `step`; `fill` puts the files into the folder that it is given.
    pub fn write(
        &self,
        step: u64,
        fill: impl FnOnce(&Path) -> Result<(), RunError>,
    ) -> Result<PathBuf, RunError> {
        let aside = self.dir.join(format!("{WRITING}{step:06}"));
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(RunError::write(&aside))?;
        }
        fs::create_dir_all(&aside).map_err(RunError::write(&aside))?;
        let written = fill(&aside).and_then(|()| seal(&aside, step));
        if let Err(error) = written {
            // A full disk must not stay full because of half a checkpoint.
            let _ = fs::remove_dir_all(&aside);
            return Err(error);
        }
        let path = self.dir.join(format!("step-{step:06}"));
        if path.exists() {
            self.remove(&path)?;
        }
        fs::rename(&aside, &path).map_err(RunError::write(&path))?;
        flush(&self.dir).map_err(RunError::write(&self.dir))?;
        self.prune()?;
        Ok(path)
    }

    /// The latest whole checkpoint, and the steps of later ones that are torn.
    pub fn latest(&self) -> Result<(Option<Saved>, Vec<u64>), RunError> {
        let mut torn = Vec::new();
        for saved in self.by_step()?.into_iter().rev() {
            match is_whole(&saved) {
                Ok(true) => return Ok((Some(saved), torn)),
                _ => torn.push(saved.step),
            }
        }
        Ok((None, torn))
    }

    /// Removes the oldest checkpoints beyond the number to keep. Torn ones do not count as kept, so that
    /// damage never costs the last good one.
    fn prune(&self) -> Result<(), RunError> {
        let saved = self.by_step()?;
        let mut good = 0;
        for checkpoint in saved.iter().rev() {
            if good >= self.keep {
                self.remove(&checkpoint.path)?;
            } else if has_manifest(&checkpoint.path) {
                good += 1;
            }
        }
        Ok(())
    }

    /// Renames before removing, so that a kill in between leaves no half checkpoint under a good name.
    fn remove(&self, path: &Path) -> Result<(), RunError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let leaving = self.dir.join(format!("{LEAVING}{name}"));
        fs::rename(path, &leaving).map_err(RunError::write(path))?;
        fs::remove_dir_all(&leaving).map_err(RunError::write(&leaving))
    }

    fn by_step(&self) -> Result<Vec<Saved>, RunError> {
        let mut saved = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(RunError::read(&self.dir))? {
            let path = entry.map_err(RunError::read(&self.dir))?.path();
            let step = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_prefix("step-"));
            if let Some(step) = step.and_then(|s| s.parse().ok()) {
                saved.push(Saved { step, path });
            }
        }
        saved.sort_by_key(|s| s.step);
        Ok(saved)
    }
}

/// Checks a checkpoint folder that a person named against its manifest.
pub fn verify(path: &Path) -> Result<Saved, RunError> {
    let torn = |why: String| RunError::TornCheckpoint { path: path.to_owned(), why };
    let manifest = read_manifest(path).map_err(|e| torn(format!("its {MANIFEST} cannot be read: {e}")))?;
    let saved = Saved { step: manifest.step, path: path.to_owned() };
    match is_whole(&saved) {
        Ok(true) => Ok(saved),
        Ok(false) => Err(torn(format!("its files do not match {MANIFEST}"))),
        Err(e) => Err(torn(e.to_string())),
    }
}

/// Writes the manifest, and everything to the disk.
fn seal(dir: &Path, step: u64) -> Result<(), RunError> {
    let mut files = BTreeMap::new();
    for path in files_under(dir).map_err(RunError::read(dir))? {
        let name = relative(dir, &path);
        files.insert(name, checksum(&path).map_err(RunError::read(&path))?);
        flush(&path).map_err(RunError::write(&path))?;
    }
    let path = dir.join(MANIFEST);
    let text = serde_json::to_string_pretty(&Manifest { step, files }).map_err(io::Error::from);
    text.and_then(|t| fs::write(&path, t)).and_then(|()| flush(&path)).map_err(RunError::write(&path))?;
    flush(dir).map_err(RunError::write(dir))
}

fn is_whole(saved: &Saved) -> io::Result<bool> {
    let manifest = read_manifest(&saved.path)?;
    if manifest.step != saved.step {
        return Ok(false);
    }
    for (name, expected) in &manifest.files {
        if checksum(&saved.path.join(name))? != *expected {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_manifest(path: &Path) -> bool {
    read_manifest(path).is_ok()
}

fn read_manifest(path: &Path) -> io::Result<Manifest> {
    serde_json::from_slice(&fs::read(path.join(MANIFEST))?).map_err(io::Error::from)
}

fn files_under(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(files_under(&path)?) } else { files.push(path) }
    }
    files.sort();
    Ok(files)
}

fn relative(dir: &Path, path: &Path) -> String {
    let parts = path.strip_prefix(dir).unwrap_or(path).components();
    parts.map(|c| c.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn checksum(path: &Path) -> io::Result<Checksum> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut size, mut crc) = (0, 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(Checksum { size, crc32c: format!("{crc:08x}") });
        }
        size += read as u64;
        crc = crc32c::crc32c_append(crc, &buffer[..read]);
    }
}

/// Waits until a file, or a folder's list of names, is on the disk.
fn flush(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(checkpoints: &Checkpoints, step: u64) -> PathBuf {
        checkpoints
            .write(step, |dir| {
                fs::create_dir(dir.join("trainer")).map_err(RunError::write(dir))?;
                let path = dir.join("trainer/weights.bin");
                fs::write(&path, format!("weights of {step}")).map_err(RunError::write(&path))
            })
            .unwrap()
    }

    #[test]
    fn the_last_checkpoints_are_kept_and_the_latest_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(dir.path(), 2).unwrap();
        for step in [10, 20, 30] {
            write(&checkpoints, step);
        }
        assert_eq!(checkpoints.latest().unwrap().0.unwrap().step, 30);
        assert!(!dir.path().join("step-000010").exists());
        assert!(dir.path().join("step-000020").exists());
    }

    #[test]
    fn a_torn_checkpoint_is_passed_over_however_it_is_torn() {
        type Tear = fn(&Path);
        let tears: [(&str, Tear); 5] = [
            ("short file", |p| fs::write(p.join("trainer/weights.bin"), "weights").unwrap()),
            ("flipped byte", |p| fs::write(p.join("trainer/weights.bin"), "weights of 21").unwrap()),
            ("missing file", |p| fs::remove_file(p.join("trainer/weights.bin")).unwrap()),
            ("no manifest", |p| fs::remove_file(p.join(MANIFEST)).unwrap()),
            ("half a manifest", |p| fs::write(p.join(MANIFEST), "{\"step\": 20, \"fil").unwrap()),
        ];
        for (name, tear) in tears {
            let dir = tempfile::tempdir().unwrap();
            let checkpoints = Checkpoints::open(dir.path(), 3).unwrap();
            write(&checkpoints, 10);
            tear(&write(&checkpoints, 20));
            let (latest, torn) = checkpoints.latest().unwrap();
            assert_eq!(latest.map(|s| s.step), Some(10), "{name}");
            assert_eq!(torn, [20], "{name}");
            assert!(verify(&dir.path().join("step-000020")).is_err(), "{name}");
        }
    }

    #[test]
    fn a_checkpoint_that_was_being_written_is_cleared_away() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(dir.path(), 2).unwrap();
        write(&checkpoints, 10);
        fs::create_dir(dir.path().join(".writing-000020")).unwrap();
        fs::create_dir(dir.path().join(".leaving-step-000005")).unwrap();
        let reopened = Checkpoints::open(dir.path(), 2).unwrap();
        assert_eq!(reopened.latest().unwrap().0.unwrap().step, 10);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind_and_the_previous_one_whole() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(dir.path(), 2).unwrap();
        write(&checkpoints, 10);
        let full = |_: &Path| {
            Err(RunError::write(Path::new("weights"))(io::Error::from(io::ErrorKind::StorageFull)))
        };
        assert!(checkpoints.write(20, full).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(checkpoints.latest().unwrap().0.unwrap().step, 10);
    }

    #[test]
    fn damage_to_the_newest_never_costs_the_last_good_one() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(dir.path(), 1).unwrap();
        write(&checkpoints, 10);
        fs::create_dir(dir.path().join("step-000015")).unwrap();
        checkpoints.prune().unwrap();
        assert_eq!(checkpoints.latest().unwrap().0.unwrap().step, 10);
    }
}
