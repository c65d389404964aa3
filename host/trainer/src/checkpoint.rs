//! Checkpoints of the trainer: masters, moments and the number of updates, all or nothing.
//!
//! A checkpoint is written into a folder beside its place, flushed, and renamed; the manifest holds
//! the SHA-256 of every file. So a run killed at any moment leaves either the old checkpoint or the
//! new one, and a file that the disk has damaged is found when it is read.

use crate::TrainError;
use crate::optimiser::Parameter;
use crate::tensorfile::{self, TensorFile};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use tch::Tensor;

const MANIFEST: &str = "manifest.json";
const WEIGHTS: &str = "weights.safetensors";
const MOMENTS: &str = "moments.safetensors";
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// Updates behind the weights.
    step: u64,
    /// SHA-256 of each file.
    files: BTreeMap<String, String>,
    /// SHA-256 over format, step and files, so that the manifest itself cannot be torn.
    checksum: String,
}

impl Manifest {
    fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{} {}\n", self.format, self.step));
        for (name, digest) in &self.files {
            hash.update(format!("{name} {digest}\n"));
        }
        tensorfile::hex(&hash.finalize())
    }
}

/// Why a folder is no checkpoint to go on from.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file is missing, cut off or changed. An earlier checkpoint may be whole.
    #[error("checkpoint {}: {reason}", path.display())]
    Torn {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is whole, but of another model or another version of this program.
    #[error("checkpoint {} does not fit this run: {reason}", path.display())]
    Incompatible {
        /// The folder.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
}

/// Writes a checkpoint to `dir`, replacing what is there only when the new one is whole.
pub(crate) fn save(dir: &Path, parameters: &[Parameter], step: u64) -> Result<(), TrainError> {
    let aside = beside(dir, "writing");
    remove(&aside)?;
    std::fs::create_dir_all(&aside).map_err(|e| TrainError::io(&aside, e))?;
    let weights: Vec<(String, Tensor)> =
        parameters.iter().map(|p| (p.name.clone(), p.master.shallow_clone())).collect();
    let moments: Vec<(String, Tensor)> = parameters
        .iter()
        .flat_map(|p| {
            let [first, second] = [1, 2].map(|n| moment_name(&p.name, n));
            [(first, p.moment1.shallow_clone()), (second, p.moment2.shallow_clone())]
        })
        .collect();
    let mut files = BTreeMap::new();
    for (name, tensors) in [(WEIGHTS, weights), (MOMENTS, moments)] {
        files.insert(name.to_owned(), tensorfile::write(&aside.join(name), &tensors)?);
    }
    let mut manifest = Manifest { format: FORMAT, step, files, checksum: String::new() };
    manifest.checksum = manifest.checksum();
    let path = aside.join(MANIFEST);
    let text = serde_json::to_string_pretty(&manifest).map_err(|e| TrainError::format(&path, &e))?;
    std::fs::write(&path, text).map_err(|e| TrainError::io(&path, e))?;
    sync(&path)?;
    sync(&aside)?;

    // A folder cannot be renamed over a full one: the old one steps aside first.
    let old = beside(dir, "replaced");
    remove(&old)?;
    if dir.exists() {
        std::fs::rename(dir, &old).map_err(|e| TrainError::io(dir, e))?;
    }
    std::fs::rename(&aside, dir).map_err(|e| TrainError::io(dir, e))?;
    if let Some(parent) = dir.parent().filter(|p| !p.as_os_str().is_empty()) {
        sync(parent)?;
    }
    remove(&old)
}

/// Reads a checkpoint into the parameters and returns its step. Nothing is changed unless all files are whole.
pub(crate) fn load(dir: &Path, parameters: &mut [Parameter]) -> Result<u64, TrainError> {
    let torn = |reason: String| CheckpointError::Torn { path: dir.to_owned(), reason };
    let text = std::fs::read_to_string(dir.join(MANIFEST))
        .map_err(|e| torn(format!("{MANIFEST} cannot be read ({e})")))?;
    let manifest: Manifest =
        serde_json::from_str(&text).map_err(|e| torn(format!("{MANIFEST} is not complete ({e})")))?;
    if manifest.format != FORMAT {
        let reason = format!("it has format {}, this program reads {FORMAT}", manifest.format);
        return Err(CheckpointError::Incompatible { path: dir.to_owned(), reason }.into());
    }
    if manifest.checksum != manifest.checksum() {
        return Err(torn(format!("{MANIFEST} does not match its own checksum")).into());
    }
    for (name, expected) in &manifest.files {
        let found = tensorfile::digest(&dir.join(name)).map_err(|e| torn(e.to_string()))?;
        if found != *expected {
            return Err(torn(format!("{name} does not match its checksum")).into());
        }
    }
    let other = |e: TrainError| match e {
        TrainError::Format { reason, .. } => {
            TrainError::from(CheckpointError::Incompatible { path: dir.to_owned(), reason })
        }
        e => e,
    };
    let mut weights = TensorFile::open(&dir.join(WEIGHTS)).map_err(other)?;
    let mut moments = TensorFile::open(&dir.join(MOMENTS)).map_err(other)?;
    for parameter in parameters.iter_mut() {
        weights.read_into(&parameter.name, &mut parameter.master).map_err(other)?;
        moments.read_into(&moment_name(&parameter.name, 1), &mut parameter.moment1).map_err(other)?;
        moments.read_into(&moment_name(&parameter.name, 2), &mut parameter.moment2).map_err(other)?;
        parameter.grad = None;
        parameter.refresh();
    }
    Ok(manifest.step)
}

fn moment_name(parameter: &str, moment: u32) -> String {
    format!("{parameter}.moment{moment}")
}

/// `.name.suffix` in the same folder, hence on the same file system.
fn beside(dir: &Path, suffix: &str) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    dir.with_file_name(format!(".{name}.{suffix}"))
}

fn remove(dir: &Path) -> Result<(), TrainError> {
    match std::fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(TrainError::io(dir, e)),
        _ => Ok(()),
    }
}

fn sync(path: &Path) -> Result<(), TrainError> {
    File::open(path).and_then(|f| f.sync_all()).map_err(|e| TrainError::io(path, e))
}
