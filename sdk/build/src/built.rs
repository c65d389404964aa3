//! Components that were built before, by the digest of all that went into them.
//!
//! Making a component of Python or JavaScript takes many seconds, most of them for an interpreter that
//! never changes. So what was made is kept in the user's cache, and made again only when the project,
//! the SDK, the contract or a tool's version differs.

use crate::{BuildError, Manifest, contract, tools, write_whole};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Most files of a project, so that a forgotten folder of data is noticed.
const FILES: usize = 10_000;

/// What goes into a component.
pub struct Inputs(Sha256);

impl Inputs {
    /// Starts with the tools' words (names, versions, own sources) and the plugin's world.
    pub fn new(manifest: &Manifest, tools: &[&str]) -> Self {
        let mut inputs = Inputs(Sha256::new());
        inputs.add(env!("CARGO_PKG_VERSION").as_bytes());
        inputs.add(contract::CONTRACT.as_bytes());
        inputs.add(contract::world(manifest).as_bytes());
        for text in [&manifest.name, &manifest.version, &manifest.summary, &manifest.entry] {
            inputs.add(text.as_bytes());
        }
        for tool in tools {
            inputs.add(tool.as_bytes());
        }
        inputs
    }

    /// Adds the project's files, names and contents.
    pub fn add_files(&mut self, dir: &Path, files: &[PathBuf]) -> Result<(), BuildError> {
        for file in files {
            let path = dir.join(file);
            let bytes = std::fs::read(&path).map_err(|source| BuildError::Read { path, source })?;
            self.add(file.to_string_lossy().as_bytes());
            self.add(&bytes);
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// The component of these inputs: the kept one, or what `make` makes.
    pub fn component(
        self,
        make: impl FnOnce() -> Result<Vec<u8>, BuildError>,
    ) -> Result<Vec<u8>, BuildError> {
        let digest: String = self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = tools::cache()?.join("built");
        let path = folder.join(format!("{digest}.wasm"));
        if let Ok(component) = std::fs::read(&path) {
            return Ok(component);
        }
        let component = make()?;
        // A cache that cannot be written costs time, not the component.
        if std::fs::create_dir_all(&folder).is_ok() {
            let _ = write_whole(&path, &component);
        }
        Ok(component)
    }
}

/// The project's files with one of these endings, relative to `dir` and sorted. Hidden folders, build
/// outputs and installed packages are not the project's.
pub fn files(dir: &Path, endings: &[&str]) -> Result<Vec<PathBuf>, BuildError> {
    const NOT_OURS: [&str; 6] = ["dist", "build", "target", "node_modules", "__pycache__", "venv"];
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let path = dir.join(&folder);
        let entries =
            std::fs::read_dir(&path).map_err(|source| BuildError::Read { path: path.clone(), source })?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let relative = folder.join(&*name);
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if !name.starts_with('.') && !NOT_OURS.contains(&&*name) {
                    folders.push(relative);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(relative);
            }
        }
        if found.len() > FILES {
            return Err(BuildError::TooManyFiles { dir: dir.to_owned(), limit: FILES });
        }
    }
    found.sort();
    Ok(found)
}

/// Copies the project's files to another folder.
pub fn copy(from: &Path, files: &[PathBuf], to: &Path) -> Result<(), BuildError> {
    for file in files {
        let target = to.join(file);
        let copied = std::fs::create_dir_all(target.parent().unwrap_or(to))
            .and_then(|()| std::fs::copy(from.join(file), &target).map(drop));
        copied.map_err(|source| BuildError::Write { path: target, source })?;
    }
    Ok(())
}
